-- $1 ids
-- $2 tokens
-- $3 errors
-- $4 cancelled
UPDATE "txwork"."outbox" AS t
SET status = 3,
    completed_at = clock_timestamp(),
    failed_at = clock_timestamp(),
    cancelled_at = CASE WHEN s.cancelled THEN coalesce(t.cancelled_at, clock_timestamp()) ELSE t.cancelled_at END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'failed without an error') END
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::boolean[]) AS s (id, token, error, cancelled)
WHERE t.id = ANY ($1::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled;
