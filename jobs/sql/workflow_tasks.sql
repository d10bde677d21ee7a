-- The members of a join of jobs: of the join with id $1, or of the join that job $1 continues. A member whose row is
-- gone has an empty kind, and a join without members is one such row. Reads only: the members by their index and each
-- job by its primary key. OFFSET keeps the planner from reading the whole table of jobs.
SELECT j.expected, coalesce(t.id, m.member_id, '00000000-0000-0000-0000-000000000000'),
       coalesce(t.name, t.id::text, ''), coalesce(t.kind, ''), coalesce(t.status, 0), coalesce(t.waiting, false),
       coalesce(t.attempts, 0), coalesce(t.due_at, 'epoch'), t.completed_at, t.cancelled_at, coalesce(t.last_error, '')
FROM {{.Join}} AS j
LEFT JOIN {{.Member}} AS m ON m.join_id = j.id
LEFT JOIN LATERAL (
    SELECT r.*, r.headers ->> {{.TaskHeader}} AS name FROM {{.Table}} AS r WHERE r.id = m.member_id OFFSET 0
) AS t ON true
WHERE j.id = ANY (ARRAY(
    SELECT j.id FROM {{.Join}} AS j WHERE j.id = $1::uuid
    UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
    UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
ORDER BY m.member_id
