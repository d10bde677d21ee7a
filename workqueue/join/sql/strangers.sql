-- Those of the rows that are no members of the join, whose row is locked.
SELECT s.id
FROM unnest($2::uuid[]) AS s (id)
WHERE NOT EXISTS (SELECT FROM {{.Member}} AS m WHERE m.member_id = s.id AND m.join_id = $1::uuid)
