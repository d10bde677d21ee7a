-- A paused schedule is never due, so it costs schedulers nothing. One that a scheduler holds is put back for
-- good as soon as that has seen the mark; until then it stays due, since the reaper looks among the due ones only.
-- An occurrence that waits for another is dropped.
UPDATE {{.Table}} AS t
SET paused = true,
    due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE '9999-12-31 00:00:00+00' END,
    skipped = t.skipped + CASE WHEN t.buffered_at IS NULL THEN 0 ELSE 1 END,
    buffered_at = NULL
WHERE t.name = $1 AND NOT t.paused
