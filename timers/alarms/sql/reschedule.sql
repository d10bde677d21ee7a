-- active -> active: an occurrence of a series was delivered. Guarded like fired.sql.
UPDATE {{.Table}} AS a
SET next_fire_at = $2::timestamptz,
    last_fired_at = clock_timestamp(),
    claimed_at = NULL,
    failure_count = 0,
    last_error = '',
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
