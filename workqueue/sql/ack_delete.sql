-- InProgress -> gone: ack of a table that keeps no Done rows. Same guard and lock order as ack.sql.
DELETE FROM {{.Table}} AS t
USING ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
