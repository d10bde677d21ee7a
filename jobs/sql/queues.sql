-- The queues that have a rule or live jobs, with the number of jobs in each state. It counts by the two indexes of live
-- rows, of those that wait and of all others. No index has both, so a condition on both would read the whole table. The
-- cost grows with the number of live rows.
SELECT n.name, coalesce(q.paused, false), coalesce(q.max_running, 0), coalesce(q.rate, 0), coalesce(q.burst, 0),
       n.ready, n.scheduled, n.waiting, n.in_progress
FROM (
    SELECT c.name, sum(c.ready)::bigint AS ready, sum(c.scheduled)::bigint AS scheduled,
           sum(c.waiting)::bigint AS waiting, sum(c.in_progress)::bigint AS in_progress
    FROM (
        SELECT r.queue AS name, count(*) FILTER (WHERE r.status = 0 AND r.due_at <= now()) AS ready,
               count(*) FILTER (WHERE r.status = 0 AND r.due_at > now()) AS scheduled, 0 AS waiting,
               count(*) FILTER (WHERE r.status = 1) AS in_progress
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting
        GROUP BY r.queue
        UNION ALL
        SELECT r.queue, 0, 0, count(*), 0
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND r.waiting
        GROUP BY r.queue
        UNION ALL
        SELECT q.name, 0, 0, 0, 0 FROM {{.Queue}} AS q
    ) AS c
    GROUP BY c.name
) AS n
LEFT JOIN {{.Queue}} AS q ON q.name = n.name
ORDER BY n.name COLLATE "C"
