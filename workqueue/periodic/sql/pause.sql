-- Pauses a schedule. A paused schedule is never due, so it costs schedulers nothing. If a scheduler holds it, the
-- scheduler puts it back as never due once it sees the mark; until then it stays due, since the reaper looks only at
-- due rows. An occurrence that waits for another one is dropped.
UPDATE {{.Table}} AS t
SET paused = true,
    due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE '9999-12-31 00:00:00+00' END,
    skipped = t.skipped + CASE WHEN t.buffered_at IS NULL THEN 0 ELSE 1 END,
    buffered_at = NULL
WHERE t.name = $1 AND NOT t.paused
