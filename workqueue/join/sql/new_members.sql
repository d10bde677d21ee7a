-- The given rows that are not members of the join yet. The join's row is locked already.
SELECT s.id
FROM unnest($2::uuid[]) AS s (id)
WHERE NOT EXISTS (SELECT FROM {{.Member}} AS m WHERE m.member_id = s.id AND m.join_id = $1::uuid)
