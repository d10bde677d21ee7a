-- The queues that have a rule or live jobs, with the number of jobs in each state. It counts by the index of live rows,
-- so the cost grows with their number.
SELECT n.name, coalesce(q.paused, false), coalesce(q.max_running, 0), coalesce(q.rate, 0), coalesce(q.burst, 0),
       coalesce(l.ready, 0), coalesce(l.scheduled, 0), coalesce(l.waiting, 0), coalesce(l.in_progress, 0)
FROM (
    SELECT r.queue AS name FROM {{.Table}} AS r WHERE r.completed_at IS NULL
    UNION
    SELECT q.name FROM {{.Queue}} AS q
) AS n
LEFT JOIN {{.Queue}} AS q ON q.name = n.name
LEFT JOIN (
    SELECT r.queue,
           count(*) FILTER (WHERE r.status = 0 AND NOT r.waiting AND r.due_at <= now()) AS ready,
           count(*) FILTER (WHERE r.status = 0 AND NOT r.waiting AND r.due_at > now()) AS scheduled,
           count(*) FILTER (WHERE r.waiting) AS waiting,
           count(*) FILTER (WHERE r.status = 1) AS in_progress
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
    GROUP BY r.queue
) AS l ON l.queue = n.name
ORDER BY n.name COLLATE "C"
