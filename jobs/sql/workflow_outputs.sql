-- The outputs of the jobs that job $1 has waited for, or only of the one whose name is $2.
SELECT coalesce(t.name, t.id::text), t.id, t.kind, t.headers, t.output
FROM {{.Member}} AS m
CROSS JOIN LATERAL (
    SELECT r.id, r.kind, r.output, coalesce(r.headers, '{}')::text AS headers, r.headers ->> {{.TaskHeader}} AS name
    FROM {{.Table}} AS r
    WHERE r.id = m.member_id
    OFFSET 0
) AS t
WHERE m.join_id = ANY (ARRAY(
    SELECT j.id FROM {{.Join}} AS j WHERE j.on_complete = $1::uuid
    UNION
    SELECT j.id FROM {{.Join}} AS j WHERE j.on_fail = $1::uuid))
  AND ($2::text IS NULL OR coalesce(t.name, t.id::text) = $2::text)
