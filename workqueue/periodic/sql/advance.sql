-- Writes a scheduler's decision, before it settles its claim in the same transaction. It has held the row's lock since
-- lock.sql. The attempts are reset, so that old failures do not make the schedule a dead letter; the snooze that
-- settles the claim takes the remaining attempt back. Returns the time from which the settle counts its delay.
UPDATE {{.Table}} AS t
SET next_at = $2::timestamptz,
    last_at = coalesce($3::timestamptz, t.last_at),
    buffered_at = $4::timestamptz,
    fired = t.fired + $5::bigint,
    skipped = t.skipped + $6::bigint,
    owed = $7::text::jsonb,
    resumed_at = NULL,
    attempts = 1
WHERE t.id = $1
RETURNING clock_timestamp()
