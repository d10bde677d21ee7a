-- active -> cancelled: somebody cancelled the alarm's timer by itself. Guarded as fired.sql is.
UPDATE {{.Table}} AS a
SET status = 'cancelled',
    last_error = $2::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
