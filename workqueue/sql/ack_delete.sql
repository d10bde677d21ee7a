-- InProgress -> gone: ack of a table that keeps no Done rows. Same guard and lock order as ack.sql.
DELETE FROM {{.Table}} AS t
USING unnest(@ids::uuid[], @tokens::uuid[]) AS s (id, token)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
