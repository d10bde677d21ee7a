-- Dead letters stay what they are, and no longer hold up the rows of their key, as if their policy had been Skip. A
-- trigger notes that, and a fold lets the next row through.
UPDATE {{.Table}} AS t SET key_policy = 0
WHERE t.id = ANY (@ids::uuid[]) AND t.failed_at IS NOT NULL AND t.key_policy > 0
RETURNING t.id
