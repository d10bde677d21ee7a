-- Records that the delivery of an alarm begins, and reads the alarm. The claim itself is on the timer; claimed_at only
-- informs readers. An alarm that was delivered or cancelled is not returned. One that has failed has a timer to claim
-- only because somebody has redriven it: failed -> active, with fresh attempts.
WITH held AS (
    SELECT h.id, h.status
    FROM {{.Table}} AS h
    WHERE h.id = $1::uuid AND h.status IN ('active', 'failed')
    FOR NO KEY UPDATE
)
UPDATE {{.Table}} AS a
SET status = 'active',
    failure_count = CASE held.status WHEN 'failed' THEN 0 ELSE a.failure_count END,
    claimed_at = clock_timestamp(),
    updated_at = clock_timestamp()
FROM held
WHERE a.id = held.id
RETURNING {{template "columns" .}}
