-- The members of a join of jobs: of the join with id $1, or of the join that job $1 continues. Reads only: the members
-- by their index and each job by its primary key. OFFSET keeps the planner from reading the whole table of jobs.
SELECT coalesce(t.name, t.id::text), t.id, t.kind, t.status, t.waiting, t.attempts, t.due_at, t.completed_at,
       t.cancelled_at, coalesce(t.last_error, '')
FROM {{.Member}} AS m
CROSS JOIN LATERAL (
    SELECT r.*, r.headers ->> {{.TaskHeader}} AS name FROM {{.Table}} AS r WHERE r.id = m.member_id OFFSET 0
) AS t
WHERE m.join_id = ANY (ARRAY(
    SELECT j.id FROM {{.Join}} AS j WHERE j.id = $1::uuid
    UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
    UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
ORDER BY t.id
