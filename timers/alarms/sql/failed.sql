-- active -> failed: the deliveries of an alarm are used up. Guarded as fired.sql is.
UPDATE {{.Table}} AS a
SET status = 'failed',
    failure_count = $2::int,
    last_error = $3::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
