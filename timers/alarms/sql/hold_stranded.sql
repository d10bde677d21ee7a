-- Holds one alarm of stranded.sql for its repair, if it is still stranded. A settle or a cancel that holds it is passed
-- over; an alarm that changed since the snapshot is judged anew and, since its time has moved or its status, left out.
SELECT {{template "columns" .}}, t.status, coalesce(t.last_error, ''), t.cancelled_at IS NOT NULL, t.fire_at
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.id = $1::uuid
  AND a.status = 'active'
  AND a.next_fire_at <= now()
  AND (t.id IS NULL OR t.completed_at IS NOT NULL)
FOR NO KEY UPDATE OF a SKIP LOCKED
