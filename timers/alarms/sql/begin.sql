-- Records that deliveries begin, and reads the alarms to deliver. The claim itself is on the timer; claimed_at only
-- informs readers. The rows are locked in the order of their ids. An alarm that has ended is not returned.
WITH held AS (
    SELECT h.id
    FROM {{.Table}} AS h
    WHERE h.id = ANY ($1::uuid[]) AND h.status = 'active'
    ORDER BY h.id
    FOR NO KEY UPDATE
)
UPDATE {{.Table}} AS a
SET claimed_at = clock_timestamp(),
    updated_at = clock_timestamp()
FROM held
WHERE a.id = held.id
RETURNING {{template "columns" .}}
