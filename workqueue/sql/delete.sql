-- Deletes rows that have ended, before their retention does.
DELETE FROM {{.Table}} AS t
WHERE t.id = ANY (@ids::uuid[]) AND t.status IN (2, 3)
RETURNING t.id
