-- InProgress -> Done, guarded by id and owner token. A plain UPDATE, so that a row which a renewal has
-- just changed is followed to its newest version. The token stays: a repeated ack can be told from a
-- lost lease. Callers sort the ids, so two batches lock in one order.
UPDATE {{.Table}} AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM unnest(@ids::uuid[], @tokens::uuid[]) AS s (id, token)
WHERE t.id = s.id AND t.owner_token = s.token AND t.status = 1
RETURNING t.id
