-- Inserts the memberships of rows that are locked. For those that have ended already it writes the note that their
-- settle would have written.
WITH s AS (
    SELECT s.member_id, s.join_id, t.status
    FROM unnest($1::uuid[], $2::uuid[]) AS s (member_id, join_id)
    JOIN {{.Table}} AS t ON t.id = s.member_id
), noted AS (
    INSERT INTO {{.Note}} (member_id, gone)
    SELECT s.member_id, CASE s.status WHEN 2 THEN 1 ELSE 2 END FROM s WHERE s.status IN (2, 3)
    RETURNING (SELECT {{.Announce.Note}})
)
INSERT INTO {{.Member}} (member_id, join_id) SELECT s.member_id, s.join_id FROM s
