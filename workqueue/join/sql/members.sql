-- The members of a join with their counted outcomes. Reads only.
SELECT m.member_id, coalesce(m.outcome, 0), coalesce(m.late, 0)
FROM {{.Member}} AS m
WHERE m.join_id = $1::uuid AND m.member_id > $2::uuid
ORDER BY m.member_id
LIMIT $3::integer
