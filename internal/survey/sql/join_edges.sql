-- What rows wait for before they start: the members of the joins that they continue, but for join $2; at most $3.
SELECT a.on_complete::text AS member, d.member_id::text AS after
FROM {{.Q "_join"}} AS a
CROSS JOIN LATERAL (
    SELECT m.member_id FROM {{.Q "_join_member"}} AS m WHERE m.join_id = a.id LIMIT $3::int) AS d
WHERE a.on_complete = ANY ($1::text[]::uuid[]) AND a.id <> $2::uuid
LIMIT $3::int
