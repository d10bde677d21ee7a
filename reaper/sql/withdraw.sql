-- Ends the holder's leases at once. It names no term: an election whose reply was lost is given up too.
UPDATE {{leader}} AS l
SET expires_at = clock_timestamp()
WHERE l.holder = $1::uuid AND l.expires_at > clock_timestamp()
