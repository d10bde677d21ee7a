-- Joins of one state, the newest first, with the first of their members that has not been counted, and what that one does.
SELECT j.id::text AS id, coalesce(j.label, '') AS label, j.status, j.expected, j.succeeded, j.failed, j.created_at, j.deadline, j.completed_at,
       coalesce(j.on_complete, j.on_fail)::text AS continuation, coalesce(j.last_error, '') AS error, o.member,
       CASE WHEN o.member IS NULL THEN '' WHEN o.status IS NULL THEN 'gone' WHEN o.status = 3 THEN 'failed' WHEN o.status = 2 THEN 'done'
           WHEN o.status = 1 AND o.locked_until < now() THEN 'expired' WHEN o.status = 1 THEN 'in_progress' WHEN o.waiting THEN 'waiting'
           WHEN o.due_at > now() THEN 'scheduled' ELSE 'ready' END AS state
FROM (
    SELECT a.*
    FROM {{.Q "_join"}} AS a
    WHERE a.id < $1::uuid AND a.status = $2::smallint AND ($3::text = '' OR a.label = $3::text)
    ORDER BY a.id DESC
    LIMIT $4::int) AS j
LEFT JOIN LATERAL (
    SELECT b.member_id::text AS member, r.status, r.waiting, r.due_at, r.locked_until
    FROM {{.Q "_join_member"}} AS b
    LEFT JOIN {{.Table}} AS r ON r.id = b.member_id
    WHERE b.join_id = j.id AND b.outcome IS NULL AND b.late IS NULL AND j.status = 0
    ORDER BY r.waiting NULLS FIRST, b.member_id
    LIMIT 1) AS o ON true
ORDER BY j.id DESC
