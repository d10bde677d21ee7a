-- active -> active: a delivery failed and will be retried after a delay in microseconds. The failure count is set, not
-- incremented, so that a repeated settle counts once. Guarded like fired.sql.
UPDATE {{.Table}} AS a
SET next_fire_at = statement_timestamp() + $2::bigint * interval '1 microsecond',
    failure_count = $3::int,
    last_error = $4::text,
    claimed_at = NULL,
    updated_at = statement_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
