-- Schedules that were due more than $1 seconds ago and that no scheduler has claimed since, the oldest first.
SELECT r.id::text AS id, r.name, r.expr, extract(epoch FROM now() - r.due_at)::float8 AS late, r.last_error AS error
FROM {{.Table}} AS r
WHERE r.completed_at IS NULL AND NOT r.waiting
  AND r.due_at < now() - $1::float8 * interval '1 second'
  AND r.status = 0 AND NOT r.paused
ORDER BY r.due_at, r.id
LIMIT $2::int
