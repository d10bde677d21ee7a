-- Schedules that have failed for good.
SELECT r.id::text AS id, r.name, r.expr, extract(epoch FROM now() - r.failed_at)::float8 AS late, r.last_error AS error
FROM {{.Table}} AS r
WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL
ORDER BY r.failed_at DESC, r.id DESC
LIMIT $1::int
