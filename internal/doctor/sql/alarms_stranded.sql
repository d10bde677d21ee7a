-- The alarms among the first $2 that have been due for $1 seconds, by alarms_due_idx, that have no timer or one that
-- has ended, the longest due first. If there are none, one row without an id says whether more alarms are due than
-- were looked at.
WITH due AS MATERIALIZED (
    SELECT a.id, a.label, a.next_fire_at
    FROM {{.Alarms.Table}} AS a
    WHERE a.status = 'active' AND a.next_fire_at <= now() - $1::float8 * interval '1 second'
    ORDER BY a.next_fire_at
    LIMIT $2::int
)
SELECT coalesce(s.id::text, '') AS id, coalesce(s.label, '') AS label,
       coalesce(extract(epoch FROM now() - s.next_fire_at)::float8, 0) AS due, s.timer IS NOT NULL AS ended, n.more
FROM (SELECT count(*) >= $2::int AS more FROM due) AS n
LEFT JOIN (
    SELECT d.id, d.label, d.next_fire_at, t.id AS timer
    FROM due AS d
    LEFT JOIN {{.Timers.Table}} AS t ON t.key = $3::text || d.id::text
    WHERE t.id IS NULL OR t.completed_at IS NOT NULL) AS s ON true
ORDER BY s.next_fire_at, s.id
