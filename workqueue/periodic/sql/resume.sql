-- Ends a pause of a schedule that find.sql has locked. Whether it has ended meanwhile is its status' affair.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET paused = false,
        next_at = $2::timestamptz,
        due_at = greatest($3::timestamptz, now())
    WHERE t.id = $1
    RETURNING t.id
)
SELECT changed.id, {{.Announce}}::text FROM changed
