-- Ends the holder's lease at once. It names no term: an election whose reply was lost is given up too.
UPDATE {{leader}} AS l
SET expires_at = clock_timestamp()
WHERE l.name = $1::text AND l.holder = $2::uuid AND l.expires_at > clock_timestamp()
