-- Alarms that are due but have no timer that could fire: it failed where no dispatcher of ours saw it, or the
-- alarm was written by other means. A page of them behind ($1, $2), from alarms_due_idx, so that the cost is that of
-- what is due. Reads only: each is judged again when it is held.
SELECT a.next_fire_at, a.id
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.status = 'active'
  AND a.next_fire_at <= now()
  AND (a.next_fire_at, a.id) > ($1::timestamptz, $2::uuid)
  AND (t.id IS NULL OR t.completed_at IS NOT NULL)
ORDER BY a.next_fire_at, a.id
LIMIT $3::int
