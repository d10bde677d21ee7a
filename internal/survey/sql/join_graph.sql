-- Members of a join, at most $2 of them, in the order of their ids.
SELECT o.member, {{template "member_state"}} AS state,
       CASE o.outcome WHEN 1 THEN 'succeeded' WHEN 2 THEN 'failed' ELSE '' END AS counted, o.label, o.error, o.name
FROM (
    SELECT b.member_id::text AS member, b.outcome, r.status, r.waiting, r.due_at, r.locked_until,
           coalesce({{.Label}}, '') AS label, coalesce(left(r.last_error, 200), '') AS error,
           coalesce(r.headers ->> 'txwork-task', '') AS name
    FROM (
        SELECT m.member_id, coalesce(m.outcome, m.late) AS outcome
        FROM {{.Q "_join_member"}} AS m
        WHERE m.join_id = $1::uuid
        LIMIT $2::int) AS b
    LEFT JOIN {{.Table}} AS r ON r.id = b.member_id) AS o
ORDER BY o.member
