-- The series whose last delivery failed, those without a success for longest first.
SELECT a.id::text AS id, a.owner_did, a.label, a.kind, a.cron_expr, a.timezone, a.next_fire_at, a.last_fired_at,
       a.failure_count, a.last_error, extract(epoch FROM clock_timestamp() - a.next_fire_at)::float8 AS late
FROM {{.}} AS a
WHERE a.status = 'active' AND a.kind = 'cron' AND a.last_error <> ''
ORDER BY coalesce(a.last_fired_at, a.created_at)
LIMIT $1::int
