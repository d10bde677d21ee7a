-- InProgress -> Ready after the delay, or Failed if the attempts are used up or the row was cancelled. A NULL delay
-- means the table's own backoff. Same guard and lock order as ack.sql.
UPDATE {{.Table}} AS t
SET {{template "retry_or_fail" retry "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL" .AbandonDue}}
    last_error = {{reason "coalesce(s.error, 'abandoned without an error')"}}
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), unnest(@delays::bigint[]), unnest(@errors::text[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
