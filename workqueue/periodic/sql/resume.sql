-- Ends a pause of a schedule that find.sql has locked. Whether it has ended meanwhile is its status' affair. One
-- that a scheduler holds stays due, for the reaper; the scheduler decides by what is written here.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET paused = false,
        next_at = $2::timestamptz,
        due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE greatest($3::timestamptz, now()) END
    WHERE t.id = $1
    RETURNING t.id
)
SELECT changed.id, {{.Announce}}::text FROM changed
