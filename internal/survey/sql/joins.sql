-- Pending joins that should have ended, among those that the sweep looks at next: the deadline has passed, all members
-- are counted, or a member is gone or has ended without being counted.
SELECT j.id::text AS id, coalesce(j.label, '') AS label, o.reason,
       extract(epoch FROM now() - j.created_at)::float8 AS age, j.expected, j.succeeded + j.failed AS counted, o.member
FROM (
    SELECT a.*
    FROM {{.Q "_join"}} AS a
    WHERE a.look_at <= now() + interval '16 minutes'
    ORDER BY a.look_at
    LIMIT $2::int) AS j
CROSS JOIN LATERAL (
    SELECT CASE
               WHEN j.deadline < now() - $1::float8 * interval '1 second' THEN 'its deadline has passed'
               WHEN j.succeeded + j.failed >= j.expected THEN 'all that it expects has been counted'
               WHEN m.open IS NOT NULL AND m.status IS NULL THEN 'a member is gone and was not counted'
               WHEN m.open IS NOT NULL THEN 'a member has ended and was not counted'
           END AS reason, m.open::text AS member
    FROM (SELECT) AS one
    LEFT JOIN LATERAL (
        SELECT b.member_id AS open, r.status
        FROM (
            SELECT b.member_id
            FROM {{.Q "_join_member"}} AS b
            WHERE b.join_id = j.id AND b.outcome IS NULL AND b.late IS NULL
            LIMIT 200) AS b
        LEFT JOIN {{.Table}} AS r ON r.id = b.member_id
        WHERE r.id IS NULL OR r.completed_at < now() - $1::float8 * interval '1 second'
        LIMIT 1) AS m ON true
) AS o
WHERE j.status = 0 AND j.created_at < now() - $1::float8 * interval '1 second' AND o.reason IS NOT NULL
ORDER BY j.created_at
LIMIT $3::int
