-- Changes a schedule that find.sql has locked. A schedule that has ended becomes Ready again. A schedule that a
-- scheduler holds stays claimed, and due, so that the reaper finds it: the scheduler waits for the lock and then
-- decides by the new values. Schedulers are notified, since the schedule may be due earlier than before. It is due at
-- once if an occurrence waits for another one, because the policy that made it wait may have changed, and if
-- occurrences of earlier definitions are owed. One that was triggered is due already.
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
        owed = $12::text::jsonb,
        skipped = t.skipped + $13::bigint,
        anchor = coalesce(t.anchor, $14::timestamptz),
        version = $15::bigint,
        resumed_at = NULL,
        due_at = CASE
            WHEN t.status = 1 OR t.paused OR t.triggers IS NOT NULL THEN t.due_at
            WHEN t.buffered_at IS NOT NULL OR $12::text IS NOT NULL THEN now()
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
