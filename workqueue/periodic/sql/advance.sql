-- What a scheduler decided, written before it settles its claim in the same transaction. It holds the row's
-- lock since load.sql. The attempts start again, so that a schedule is not given up for failures of long ago;
-- the settle takes the one back that is left here. Returns the time for the settle to count from.
UPDATE {{.Table}} AS t
SET next_at = $2::timestamptz,
    last_at = coalesce($3::timestamptz, t.last_at),
    buffered_at = $4::timestamptz,
    fired = t.fired + $5::bigint,
    skipped = t.skipped + $6::bigint,
    attempts = 1
WHERE t.id = $1
RETURNING clock_timestamp()
