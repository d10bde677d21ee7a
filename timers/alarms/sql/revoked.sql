-- active -> cancelled: the alarm's timer was cancelled directly, without the alarm. Guarded like fired.sql.
UPDATE {{.Table}} AS a
SET status = 'cancelled',
    last_error = $2::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
