-- Locks one alarm that stranded.sql found, if it is still stranded, for its repair. It skips an alarm that a settle or
-- a cancel holds. If the alarm changed since the snapshot, PostgreSQL checks the conditions again, and an alarm whose
-- time or status has changed is left out.
SELECT {{template "columns" .}}, t.status, coalesce(t.last_error, ''), t.cancelled_at IS NOT NULL, t.fire_at
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.id = $1::uuid
  AND a.status = 'active'
  AND a.next_fire_at <= now()
  AND (t.id IS NULL OR t.completed_at IS NOT NULL)
FOR NO KEY UPDATE OF a SKIP LOCKED
