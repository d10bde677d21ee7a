-- Pauses a schedule. A paused schedule is never due, so it costs schedulers nothing. If a scheduler holds it, the
-- scheduler puts it back as never due once it sees the mark; until then it stays due, since the reaper looks only at
-- due rows. It also stays due if it was triggered. What waits is dropped: an occurrence behind another one, and those
-- that are owed.
UPDATE {{.Table}} AS t
SET paused = true,
    due_at = CASE WHEN t.status = 1 OR t.triggers IS NOT NULL THEN t.due_at ELSE '9999-12-31 00:00:00+00' END,
    skipped = t.skipped + CASE WHEN t.buffered_at IS NULL THEN 0 ELSE 1 END
        + (SELECT count(*) FROM jsonb_path_query(t.owed, 'lax $[*].due[*]')),
    buffered_at = NULL,
    owed = NULL,
    resumed_at = NULL
WHERE t.name = $1 AND NOT t.paused
