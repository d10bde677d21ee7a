-- InProgress -> Failed: a dead letter, however many attempts are left. Same guard and lock order as ack.sql.
UPDATE {{.Table}} AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = {{reason "coalesce(s.error, 'failed without an error')"}}
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), unnest(@errors::text[]), unnest(@cancelled::boolean[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, error, cancelled)
WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
