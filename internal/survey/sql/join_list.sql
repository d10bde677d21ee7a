-- The given joins, the newest first, each with one member that has not been counted, and the state of that member.
-- Reads a bounded number of members of a pending join, and none of an ended one.
SELECT j.id::text AS id, coalesce(j.label, '') AS label, j.status, j.expected, j.succeeded, j.failed, j.created_at,
       j.deadline, j.completed_at, coalesce(j.on_complete, j.on_fail)::text AS continuation,
       coalesce(j.last_error, '') AS error, o.member, {{template "member_state"}} AS state
FROM (
    SELECT a.*
    FROM {{.Q "_join"}} AS a
    WHERE a.id = ANY ($1::text[]::uuid[])) AS j
LEFT JOIN LATERAL (
    SELECT b.member_id::text AS member, r.status, r.waiting, r.due_at, r.locked_until
    FROM (
        SELECT m.member_id
        FROM (
            SELECT c.member_id, c.outcome, c.late
            FROM {{.Q "_join_member"}} AS c
            WHERE c.join_id = j.id AND j.status = 0
            LIMIT $2::int) AS m
        WHERE m.outcome IS NULL AND m.late IS NULL
        LIMIT $3::int) AS b
    LEFT JOIN {{.Table}} AS r ON r.id = b.member_id
    ORDER BY r.waiting NULLS FIRST, b.member_id
    LIMIT 1) AS o ON true
ORDER BY j.id DESC
{{define "member_state"}}CASE
           WHEN o.member IS NULL THEN ''
           WHEN o.status IS NULL THEN 'gone'
           WHEN o.status = 3 THEN 'failed'
           WHEN o.status = 2 THEN 'done'
           WHEN o.status = 1 AND o.locked_until < now() THEN 'expired'
           WHEN o.status = 1 THEN 'in_progress'
           WHEN o.waiting THEN 'waiting'
           WHEN o.due_at > now() THEN 'scheduled'
           ELSE 'ready' END{{end}}
