-- Changes a schedule that find.sql has locked. One that has ended is Ready again. One that a scheduler holds
-- stays claimed, and due, for the reaper: the scheduler waits for the lock, and then decides by what is written
-- here. The scheduler hears of it, since the schedule may be due earlier than before: at once, where an occurrence waits for another
-- and the policy that kept it waiting may have changed.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET expr = $2,
        zone = $3,
        misfire = $4,
        cap = $5::integer,
        grace = $6::bigint,
        overlap = $7,
        jitter = $8::bigint,
        template = $9::bytea,
        next_at = $10::timestamptz,
        due_at = CASE
            WHEN t.status = 1 OR t.paused THEN t.due_at
            WHEN t.buffered_at IS NOT NULL THEN now()
            ELSE greatest($11::timestamptz, now())
        END,
        status = CASE WHEN t.status = 1 THEN 1 ELSE 0 END,
        attempts = CASE WHEN t.status = 1 THEN t.attempts ELSE 0 END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL
    WHERE t.id = $1
    RETURNING t.id
)
SELECT changed.id, {{.Announce}}::text FROM changed
