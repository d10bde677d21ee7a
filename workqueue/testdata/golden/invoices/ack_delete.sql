-- $1 ids
-- $2 tokens
DELETE FROM "billing"."invoices" AS t
USING ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id;
