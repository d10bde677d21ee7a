-- InProgress -> Done, guarded by id and owner token. A plain UPDATE, so that a row which a renewal has just changed is
-- followed to its newest version. The token stays, so that a repeated ack can be distinguished from a lost lease.
-- Callers sort the ids, so two batches lock rows in the same order.
--
-- The ids appear twice, and the status in a form without statistics, for the planner. If it estimated that almost no
-- row is in progress and the table is small, it would otherwise scan the table and compare every row in progress with
-- every row of the batch.
UPDATE {{.Table}} AS t
{{template "acked" .}}
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id
