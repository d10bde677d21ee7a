-- The rules of queues, how many jobs run in those with a limit, and whether a rate holds jobs back now: no job could
-- have started a quarter of a second ago. Workers ask again once a job may start, so a token that is older waits for a
-- worker.
SELECT q.name, q.paused, q.max_running, q.rate,
       CASE WHEN q.max_running IS NULL THEN 0 ELSE (
           SELECT count(*) FROM (
               SELECT FROM {{.Q "_slot"}} AS s WHERE s.queue = q.name LIMIT q.max_running) AS r) END AS running,
       extract(epoch FROM clock_timestamp() - q.changed_at)::float8 AS changed,
       coalesce(b.tokens + q.rate * (extract(epoch FROM clock_timestamp() - b.refilled_at)::float8 - 0.25)
           + (SELECT coalesce(sum(g.starts), 0) FROM {{.Q "_given"}} AS g WHERE g.queue = q.name)
           < 1, false) AS throttled
FROM {{.Q "_queue"}} AS q
LEFT JOIN {{.Q "_bucket"}} AS b ON b.queue = q.name
WHERE q.paused OR q.max_running IS NOT NULL OR q.rate IS NOT NULL
LIMIT $1::int
