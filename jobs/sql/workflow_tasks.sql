-- The members of a join of jobs: of the join with id $1, or of the join that job $1 continues, of which there is one
-- at most. A member whose row is gone has an empty kind, and a join without members is one such row. Reads only: the
-- members by their index and each job by its primary key. The ids are an array, and what is said of them beside it is
-- for the planner, as in the core's ack.sql: a plan that was made while the tables were empty read all jobs for each
-- member.
WITH found AS MATERIALIZED (
    SELECT j.id, j.expected
    FROM {{.Join}} AS j
    WHERE j.id = ANY (ARRAY(
        SELECT j.id FROM {{.Join}} AS j WHERE j.id = $1::uuid
        UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
        UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
), named AS MATERIALIZED (
    SELECT ARRAY(SELECT m.member_id FROM {{.Member}} AS m
        WHERE m.join_id = ANY (ARRAY(SELECT f.id FROM found AS f))) AS ids
)
SELECT f.expected, coalesce(t.id, m.id, '00000000-0000-0000-0000-000000000000'),
       coalesce(t.name, t.id::text, ''), coalesce(t.kind, ''), coalesce(t.status, 0), coalesce(t.waiting, false),
       coalesce(t.attempts, 0), coalesce(t.due_at, 'epoch'), t.completed_at, t.cancelled_at, coalesce(t.last_error, '')
FROM found AS f
LEFT JOIN ROWS FROM (unnest((SELECT n.ids FROM named AS n)), generate_subscripts('{}'::int[], 1)) AS m (id) ON true
LEFT JOIN (
    SELECT r.*, r.headers ->> {{.TaskHeader}} AS name FROM {{.Table}} AS r
    WHERE r.id = ANY ((SELECT n.ids FROM named AS n)::uuid[])
    OFFSET 0
) AS t ON t.id = m.id
ORDER BY m.id
