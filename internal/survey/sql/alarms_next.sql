-- The active alarms in the order of their next wakes, behind a time and an id.
SELECT a.id::text AS id, a.owner_did, a.label, a.kind, a.cron_expr, a.timezone, a.next_fire_at, a.last_fired_at,
       a.failure_count, a.last_error, extract(epoch FROM clock_timestamp() - a.next_fire_at)::float8 AS late
FROM {{.}} AS a
WHERE a.status = 'active' AND a.next_fire_at >= $1::timestamptz AND (a.next_fire_at, a.id) > ($1::timestamptz, $2::uuid)
ORDER BY a.next_fire_at, a.id
LIMIT $3::int
