-- active -> fired: a once alarm that was delivered, or a series that has no next time. Committed together with
-- the settle of the timer, which the claim's owner token guards. An alarm that was cancelled stays cancelled.
UPDATE {{.Table}} AS a
SET status = 'fired',
    last_fired_at = clock_timestamp(),
    claimed_at = NULL,
    failure_count = 0,
    last_error = '',
    updated_at = clock_timestamp()
WHERE a.id = $1::uuid AND a.status = 'active'
