-- active -> failed: the alarm's attempts are used up. Guarded like fired.sql.
UPDATE {{.Table}} AS a
SET status = 'failed',
    failure_count = $2::int,
    last_error = $3::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
