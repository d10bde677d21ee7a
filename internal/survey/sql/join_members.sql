-- Members of a join, among a bounded number of them: first those that have not been counted, then those that failed.
SELECT o.member, {{template "member_state"}} AS state,
       CASE o.outcome WHEN 1 THEN 'succeeded' WHEN 2 THEN 'failed' ELSE '' END AS counted, o.label, o.error
FROM (
    SELECT b.member_id::text AS member, b.outcome, r.status, r.waiting, r.due_at, r.locked_until,
           coalesce({{.Label}}, '') AS label, coalesce(r.last_error, '') AS error
    FROM (
        SELECT m.member_id, coalesce(m.outcome, m.late) AS outcome
        FROM {{.Q "_join_member"}} AS m
        WHERE m.join_id = $1::uuid
        LIMIT $2::int) AS b
    LEFT JOIN {{.Table}} AS r ON r.id = b.member_id) AS o
ORDER BY o.outcome IN (1, 2) NULLS FIRST, o.outcome DESC, o.waiting, o.member
LIMIT $3::int
