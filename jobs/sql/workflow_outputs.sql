-- The outputs of the jobs that job $1 has waited for, or only of the one whose name is $2. A job whose row is gone has
-- an empty kind, see workflow_tasks.sql.
SELECT j.expected, coalesce(t.id, m.member_id, '00000000-0000-0000-0000-000000000000'),
       coalesce(t.name, t.id::text, ''), coalesce(t.kind, ''), coalesce(t.headers, '{}'), t.output
FROM {{.Join}} AS j
LEFT JOIN {{.Member}} AS m ON m.join_id = j.id
LEFT JOIN LATERAL (
    SELECT r.id, r.kind, r.output, coalesce(r.headers, '{}')::text AS headers, r.headers ->> {{.TaskHeader}} AS name
    FROM {{.Table}} AS r
    WHERE r.id = m.member_id
    OFFSET 0
) AS t ON true
WHERE j.id = ANY (ARRAY(
    SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
    UNION
    SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
  AND ($2::text IS NULL OR coalesce(t.name, t.id::text) = $2::text)
