-- Schedules that owe an occurrence for more than $1 seconds: those that no scheduler has claimed since, and those whose
-- every claim since has failed, the longest overdue first. A failed claim puts off due_at, so what is owed is measured
-- at the nominal time, plus the jitter, of which SQL may write any: 30 years at most count. Attempts count failed
-- claims, and the claim of a row in progress; a success resets them. Schedules are few: no index serves this. If there
-- are none, one row without an id says whether there may be more than were looked at.
WITH owed AS MATERIALIZED (
    SELECT r.id::text AS id, r.name, r.expr, r.due_at, r.last_error AS error,
           greatest(r.attempts - r.status, 0)::int AS failures,
           greatest(0, extract(epoch FROM now() - CASE WHEN r.attempts > r.status
               THEN least(r.due_at, r.buffered_at,
                   r.next_at + least(greatest(r.jitter, 0), 1e15) * interval '1 microsecond')
               ELSE r.due_at END)::float8) AS late
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND NOT r.paused
      AND (r.status = 0 AND r.due_at < now() OR r.attempts > r.status)
    ORDER BY r.due_at, r.id
    LIMIT 10000
)
SELECT coalesce(s.id, '') AS id, coalesce(s.name, '') AS name, coalesce(s.expr, '') AS expr,
       coalesce(s.late, 0) AS late, s.error, coalesce(s.failures, 0) AS failures, n.more
FROM (SELECT count(*) >= 10000 AS more FROM owed) AS n
LEFT JOIN owed AS s ON s.late > $1::float8
ORDER BY s.late DESC, s.id
LIMIT $2::int
