-- The current state of the rows that a settle did not change. It only reads, so it waits for no lock.
SELECT s.id, t.id IS NOT NULL AS found, coalesce(t.owner_token = s.token, false) AS ours,
       coalesce(t.status, 0) AS status, t.cancelled_at IS NOT NULL AS cancelled
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
LEFT JOIN {{.Table}} AS t ON t.id = ANY (@ids::uuid[]) AND t.id = s.id
