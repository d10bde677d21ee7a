-- The rules of queues, and how many jobs run in those with a limit.
SELECT q.name, q.paused, q.max_running, q.rate,
       CASE WHEN q.max_running IS NULL THEN 0 ELSE (
           SELECT count(*) FROM (
               SELECT FROM {{.Q "_slot"}} AS s WHERE s.queue = q.name LIMIT q.max_running) AS r) END AS running,
       extract(epoch FROM clock_timestamp() - q.changed_at)::float8 AS changed
FROM {{.Q "_queue"}} AS q
WHERE q.paused OR q.max_running IS NOT NULL OR q.rate IS NOT NULL
LIMIT $1::int
