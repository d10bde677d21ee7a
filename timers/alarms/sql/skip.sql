-- active -> active: the deliveries of an occurrence are used up, and the series goes on with the next one, which
-- has all of its own. The error stays for people to see. Guarded as fired.sql is.
UPDATE {{.Table}} AS a
SET next_fire_at = $2::timestamptz,
    failure_count = 0,
    last_error = $3::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
