-- $1 ids
-- $2 tokens
UPDATE "txwork"."outbox" AS t
SET status = 2,
    completed_at = pg_catalog.clock_timestamp(),
    locked_until = NULL
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id;
