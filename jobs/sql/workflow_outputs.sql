-- The outputs of the jobs that job $1 has waited for, or only of the one whose name is $2. A job whose row is gone has
-- an empty kind, see workflow_tasks.sql.
WITH found AS MATERIALIZED (
    SELECT j.id, j.expected
    FROM {{.Join}} AS j
    WHERE j.id = ANY (ARRAY(
        SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
        UNION SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
), named AS MATERIALIZED (
    SELECT ARRAY(SELECT m.member_id FROM {{.Member}} AS m
        WHERE m.join_id = ANY (ARRAY(SELECT f.id FROM found AS f))) AS ids
)
SELECT f.expected, coalesce(t.id, m.id, '00000000-0000-0000-0000-000000000000'),
       coalesce(t.name, t.id::text, ''), coalesce(t.kind, ''), coalesce(t.headers, '{}'), t.output
FROM found AS f
LEFT JOIN ROWS FROM (unnest((SELECT n.ids FROM named AS n)), generate_subscripts('{}'::int[], 1)) AS m (id) ON true
LEFT JOIN (
    SELECT r.id, r.kind, r.output, coalesce(r.headers, '{}')::text AS headers, r.headers ->> {{.TaskHeader}} AS name
    FROM {{.Table}} AS r
    WHERE r.id = ANY ((SELECT n.ids FROM named AS n)::uuid[])
    OFFSET 0
) AS t ON t.id = m.id
WHERE $2::text IS NULL OR coalesce(t.name, t.id::text) = $2::text
