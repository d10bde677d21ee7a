-- A paused schedule is never due, so it costs schedulers nothing. One that a scheduler holds is put back for
-- good as soon as that has seen the mark. An occurrence that waits for another is dropped.
UPDATE {{.Table}} AS t
SET paused = true,
    due_at = '9999-12-31 00:00:00+00',
    skipped = t.skipped + CASE WHEN t.buffered_at IS NULL THEN 0 ELSE 1 END,
    buffered_at = NULL
WHERE t.name = $1 AND NOT t.paused
