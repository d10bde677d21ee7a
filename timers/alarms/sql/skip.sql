-- active -> active: the attempts of an occurrence are used up, and the series continues with the next one, which starts
-- with fresh attempts. The error stays for readers. Guarded like fired.sql.
UPDATE {{.Table}} AS a
SET next_fire_at = $2::timestamptz,
    failure_count = 0,
    last_error = $3::text,
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
