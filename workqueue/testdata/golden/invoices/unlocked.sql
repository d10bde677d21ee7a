-- $1 ids
SELECT r.id
FROM "billing"."invoices" AS r
WHERE r.id = ANY ($1::pg_catalog.uuid[])
FOR NO KEY UPDATE SKIP LOCKED;
