-- Locks the live members of a join, in the order of their ids and before the join itself, as Add does.
SELECT t.id
FROM {{.Table}} AS t
WHERE t.id = ANY (ARRAY(SELECT m.member_id FROM {{.Member}} AS m WHERE m.join_id = $1::uuid))
  AND t.completed_at IS NULL
ORDER BY t.id
FOR NO KEY UPDATE
