-- The series whose last delivery failed, those without a success for longest first, by alarms_failing_idx. One whose
-- failure_count is not 0 is being retried.
SELECT a.id::text AS id, a.label, a.cron_expr AS expr, a.timezone AS zone, a.last_error AS error,
       coalesce(a.last_fired_at, a.created_at)::timestamptz AS since, a.last_fired_at IS NOT NULL AS fired,
       a.failure_count > 0 OR a.next_fire_at <= now() AS pending,
       extract(epoch FROM a.next_fire_at - now())::float8 AS next
FROM {{.Table}} AS a
WHERE a.status = 'active' AND a.kind = 'cron' AND a.last_error <> ''
ORDER BY coalesce(a.last_fired_at, a.created_at)
LIMIT $1::int
