-- InProgress -> gone: ack_one.sql for a table that keeps no Done rows.
DELETE FROM {{.Table}} AS t
WHERE t.id = ANY (@ids::uuid[]) AND t.owner_token = @owner_token::uuid AND coalesce(t.status = 1, false)
RETURNING t.id
