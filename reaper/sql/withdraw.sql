-- Ends the holder's leases at once. It does not check the term, so it also gives up an election whose reply was lost.
UPDATE {{leader}} AS l
SET expires_at = clock_timestamp()
WHERE l.holder = $1::uuid AND l.expires_at > clock_timestamp()
