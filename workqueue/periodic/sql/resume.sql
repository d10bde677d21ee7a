-- Ends the pause of a schedule that is locked. It leaves the status alone, also of a schedule that has ended meanwhile.
-- A schedule that a scheduler holds stays due, so that the reaper finds it; the scheduler decides by the new values.
-- One that was triggered stays due, too. SQL does not know the next time: it says when the pause ended, and a scheduler
-- plans from then.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET paused = false,
        next_at = $2::timestamptz,
        due_at = CASE
            WHEN t.status = 1 OR t.triggers IS NOT NULL THEN t.due_at
            ELSE greatest($3::timestamptz, now())
        END,
        resumed_at = $4::timestamptz
    WHERE t.id = $1
    RETURNING t.id
)
SELECT changed.id, {{.Announce}}::text FROM changed
