-- active -> cancelled. Like every writer of both tables, it locks the alarm before the timer. It waits for a settle
-- that holds the alarm, and then sees the state that the settle left.
UPDATE {{.Table}} AS a
SET status = 'cancelled',
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.owner_did = $2::text AND a.status = 'active'
RETURNING {{template "columns" .}}
