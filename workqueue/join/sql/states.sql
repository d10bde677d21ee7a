-- Joins, the newest first if their ids grow with time. Reads only.
SELECT j.id, coalesce(j.label, ''), j.status, j.policy, j.expected, j.succeeded, j.failed, j.late,
       coalesce(j.on_complete, '00000000-0000-0000-0000-000000000000'),
       coalesce(j.on_fail, '00000000-0000-0000-0000-000000000000'),
       j.deadline, coalesce(j.last_error, ''), j.created_at, j.completed_at
FROM {{.Join}} AS j
