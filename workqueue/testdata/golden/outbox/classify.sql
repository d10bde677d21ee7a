-- $1 ids
-- $2 tokens
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN "txwork"."outbox" AS t ON t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id;
