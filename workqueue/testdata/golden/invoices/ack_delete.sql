-- $1 ids
-- $2 tokens
DELETE FROM "billing"."invoices" AS t
USING unnest($1::pg_catalog.uuid[], $2::pg_catalog.uuid[]) AS s (id, token)
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id;
