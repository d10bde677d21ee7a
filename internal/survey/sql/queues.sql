-- The rules of queues, how many jobs run in those with a limit, and whether a rate holds jobs back now: no job could
-- have started a quarter of a second ago. Workers ask again once a job may start, so a start that has been allowed for
-- longer waits for a worker.
SELECT q.name, q.paused, q.max_running, q.rate, q.burst,
       CASE WHEN q.max_running IS NULL THEN 0 ELSE (
           SELECT count(*) FROM (
               SELECT FROM {{.Q "_slot"}} AS s WHERE s.queue = q.name LIMIT q.max_running) AS r) END AS running,
       extract(epoch FROM clock_timestamp() - q.changed_at)::float8 AS changed,
       coalesce((
           SELECT max(s.at) FROM {{.Q "_start"}} AS s WHERE s.queue = q.name AND s.at <= n.moment
       ) + 1000000 / q.rate > n.moment - 250000, false) AS throttled
FROM {{.Q "_queue"}} AS q
CROSS JOIN (SELECT extract(epoch FROM clock_timestamp()) * 1000000 AS moment) AS n
WHERE q.paused OR q.max_running IS NOT NULL OR q.rate IS NOT NULL
LIMIT $1::int
