-- $1 ids
-- $2 owner_token
DELETE FROM "billing"."invoices" AS t
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.owner_token = $2::pg_catalog.uuid AND coalesce(t.status = 1, false)
RETURNING t.id;
