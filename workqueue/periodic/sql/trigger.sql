-- Asks for an occurrence outside of the plan: whichever scheduler claims the schedule next writes it, also if the
-- schedule is paused. A schedule that a scheduler holds stays as due as it is: the scheduler sees that it has changed.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET triggers = coalesce(t.triggers, '[]') || jsonb_build_object('id', $2::uuid, 'at', clock_timestamp()),
        due_at = CASE WHEN t.status = 1 THEN t.due_at ELSE least(t.due_at, now()) END
    WHERE t.id = $1
    RETURNING t.id
)
SELECT changed.id, {{.Announce}}::text FROM changed
