-- $1 ids
-- $2 tokens
-- $3 delays
-- $4 errors
UPDATE "txwork"."outbox" AS t
SET status = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN t.due_at ELSE pg_catalog.clock_timestamp() + coalesce(s.delay * interval '1 microsecond', CASE WHEN t.retry IS NULL THEN least(1000000 * (2::pg_catalog.float8 ^ least(t.attempts - 1, 60)), 900000000) * (1 - 0.2 * pg_catalog.random()) * interval '1 microsecond' ELSE least((t.retry ->> 'base_us')::pg_catalog.float8 * CASE t.retry ->> 'growth' WHEN 'linear' THEN t.attempts::pg_catalog.float8 WHEN 'quadratic' THEN t.attempts::pg_catalog.float8 ^ 2 WHEN 'exponential' THEN 2::pg_catalog.float8 ^ least(t.attempts - 1, 60) ELSE 1 END, (t.retry ->> 'cap_us')::pg_catalog.float8) * (1 - coalesce((t.retry ->> 'jitter')::pg_catalog.float8, 0) * pg_catalog.random()) * interval '1 microsecond' END) END,
    completed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    failed_at = CASE WHEN t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    locked_until = NULL,
    last_error = CASE WHEN t.cancelled_at IS NOT NULL THEN t.last_error ELSE coalesce(s.error, 'abandoned without an error') END
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::pg_catalog.text[]),
        pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled;
