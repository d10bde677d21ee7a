-- The joins that a row is a member of, and those that start it when they end, at most $2 of each.
SELECT a.id::text AS id, coalesce(a.label, '') AS label, a.status, s.starts,
       a.completed_at AS ended_at
FROM (
    (SELECT m.join_id AS id, false AS starts FROM {{.Q "_join_member"}} AS m WHERE m.member_id = $1::uuid LIMIT $2::int)
    UNION ALL
    (SELECT c.id, true FROM {{.Q "_join"}} AS c WHERE c.on_complete = $1::uuid LIMIT $2::int)
    UNION ALL
    (SELECT f.id, true FROM {{.Q "_join"}} AS f WHERE f.on_fail = $1::uuid LIMIT $2::int)) AS s
CROSS JOIN LATERAL (
    SELECT j.id, j.label, j.status, j.completed_at FROM {{.Q "_join"}} AS j WHERE j.id = s.id LIMIT 1) AS a
ORDER BY s.starts, a.id
