-- Alarms that are due but have no timer that could fire: it failed where no dispatcher of ours saw it, or the
-- alarm was written by other means. From alarms_due_idx, so that the cost is that of what is due. A settle or a
-- cancel that holds an alarm is passed over; an alarm that changed since the snapshot is judged anew and, since
-- its time has moved or its status, left out.
SELECT {{template "columns" .}}, t.status, coalesce(t.last_error, ''), t.cancelled_at IS NOT NULL, t.fire_at
FROM {{.Table}} AS a
LEFT JOIN {{.Timers}} AS t ON t.key = '{{.Prefix}}' || a.id::text
WHERE a.status = 'active'
  AND a.next_fire_at <= now()
  AND (t.id IS NULL OR t.completed_at IS NOT NULL)
ORDER BY a.next_fire_at
LIMIT $1::int
FOR NO KEY UPDATE OF a SKIP LOCKED
