-- InProgress -> Ready with the attempt given back. A NULL delay leaves due_at alone: a worker that
-- shuts down puts its unstarted rows back where they were. Same guard and lock order as ack.sql.
UPDATE {{.Table}} AS t
SET {{template "retry_or_fail" retry "t.cancelled_at IS NOT NULL" "coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at)"}}
    attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE t.attempts - 1 END
FROM unnest(@ids::uuid[], @tokens::uuid[], @delays::bigint[]) AS s (id, token, delay)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
