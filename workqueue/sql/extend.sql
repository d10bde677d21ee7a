-- InProgress -> InProgress: the lease moves, the token stays. Locked rows, such as one whose handler is committing its
-- own settle, are skipped, so a renewal never waits. The outer join is by id, not by ctid: a row that changed before it
-- was locked is followed to its newest version.
UPDATE {{.Table}} AS t
SET locked_until = clock_timestamp() + @lease::interval
FROM (
    SELECT r.id
    FROM unnest(@ids::uuid[], @tokens::uuid[]) AS s (id, token)
    JOIN {{.Table}} AS r ON r.id = s.id
    WHERE r.id = ANY (@ids::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled
