-- Ends the holder's leases of tables at once, and says what kept its last round from serving each to the end. It does
-- not check the term, so it also gives up an election whose reply was lost.
UPDATE {{leader}} AS l
SET expires_at = clock_timestamp(),
    problem = nullif(($3::text[])[array_position($2::text[], l.name)], '')
WHERE l.holder = $1::uuid AND l.name = ANY ($2::text[]) AND l.expires_at > clock_timestamp()
