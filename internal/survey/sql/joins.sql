-- Pending joins that should have ended, among those that the sweep looks at next: the deadline has passed, all members
-- are counted, or a member is gone or has ended without being counted. At most $2 joins that are old enough are looked
-- at, and 50000 of their members in all. If none is stuck, one row without an id says what was not looked at: whether
-- there may be more joins, and of how many joins there are more members.
WITH next AS MATERIALIZED (
    SELECT a.id, a.label, a.status, a.created_at, a.deadline, a.expected, a.succeeded, a.failed
    FROM {{.Q "_join"}} AS a
    WHERE a.look_at <= now() + interval '16 minutes'
    ORDER BY a.look_at
    LIMIT 10 * $2::int
), old AS MATERIALIZED (
    SELECT n.*
    FROM next AS n
    WHERE n.status = 0 AND n.created_at < now() - $1::float8 * interval '1 second'
    LIMIT $2::int
), looked AS MATERIALIZED (
    SELECT j.*, o.reason, o.member, o.part
    FROM old AS j
    CROSS JOIN (SELECT 50000 / greatest(count(*), 1) AS members FROM old) AS most
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN j.deadline < now() - $1::float8 * interval '1 second' THEN 'its deadline has passed'
                   WHEN j.succeeded + j.failed >= j.expected THEN 'all that it expects has been counted'
                   WHEN m.open IS NOT NULL AND m.status IS NULL THEN 'a member is gone and was not counted'
                   WHEN m.open IS NOT NULL THEN 'a member has ended and was not counted'
               END AS reason, m.open::text AS member, m.members >= most.members AS part
        FROM (
            SELECT count(*) AS members, (array_agg(s.member_id) FILTER (WHERE s.ended))[1] AS open,
                   (array_agg(s.status) FILTER (WHERE s.ended))[1] AS status
            FROM (
                SELECT b.member_id, r.status,
                       r.id IS NULL OR r.completed_at < now() - $1::float8 * interval '1 second' AS ended
                FROM (
                    SELECT b.member_id
                    FROM {{.Q "_join_member"}} AS b
                    WHERE b.join_id = j.id AND b.outcome IS NULL AND b.late IS NULL
                    LIMIT most.members) AS b
                LEFT JOIN {{.Table}} AS r ON r.id = b.member_id) AS s) AS m
    ) AS o
)
SELECT coalesce(j.id::text, '') AS id, coalesce(j.label, '') AS label, coalesce(j.reason, '') AS reason,
       coalesce(extract(epoch FROM now() - j.created_at), 0)::float8 AS age, coalesce(j.expected, 0) AS expected,
       coalesce(j.succeeded + j.failed, 0) AS counted, j.member,
       (SELECT count(*) FROM next) >= 10 * $2::int OR (SELECT count(*) FROM old) >= $2::int AS more,
       (SELECT count(*) FROM looked AS l WHERE l.reason IS NULL AND l.part) AS part
FROM (SELECT) AS one
LEFT JOIN looked AS j ON j.reason IS NOT NULL
ORDER BY j.created_at
LIMIT $3::int
