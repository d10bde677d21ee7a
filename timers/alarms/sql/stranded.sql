-- Alarms that are due but have no timer that could fire: the timer failed without a dispatcher noticing, or the alarm
-- was written by other means. This is a page of them after ($1, $2), by alarms_due_idx, so that it reads only due
-- alarms. Reads only: hold_stranded.sql checks each alarm again. The last column is true if row-level security hides
-- timers from the role: their alarms only look stranded.
SELECT a.next_fire_at, a.id, {{.Hides}}
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.status = 'active'
  AND a.next_fire_at <= now()
  AND (a.next_fire_at, a.id) > ($1::timestamptz, $2::uuid)
  AND (t.id IS NULL OR t.completed_at IS NOT NULL)
ORDER BY a.next_fire_at, a.id
LIMIT $3::int
