-- active -> cancelled. Like every writer of both tables it locks the alarm before the timer. A settle that
-- holds the alarm is waited for, and the alarm judged as that has left it.
UPDATE {{.Table}} AS a
SET status = 'cancelled',
    claimed_at = NULL,
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.owner_did = $2::text AND a.status = 'active'
RETURNING {{template "columns" .}}
