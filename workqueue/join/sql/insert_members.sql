-- The members' rows are locked, so their status here is the one that was counted.
INSERT INTO {{.Member}} (member_id, join_id, outcome)
SELECT s.member_id, s.join_id, CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 END
FROM unnest($1::uuid[], $2::uuid[]) AS s (member_id, join_id)
JOIN {{.Table}} AS t ON t.id = s.member_id
