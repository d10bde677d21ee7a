-- InProgress -> gone: ack of a table that keeps no Done rows. Same guard and lock order as ack.sql.
DELETE FROM {{.Table}} AS t
USING unnest(@ids::uuid[], @tokens::uuid[]) AS s (id, token)
WHERE t.id = s.id AND t.owner_token = s.token AND t.status = 1
RETURNING t.id
