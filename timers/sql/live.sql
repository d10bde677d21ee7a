-- Whether a live timer of the schedule exists, as 0 or 1. The index holds live timers of schedules only.
-- -1: row-level security may hide it.
SELECT CASE WHEN {{.Hides}} THEN -1 ELSE count(*) END
FROM (SELECT FROM {{.Table}} AS t WHERE t.schedule = $1 AND t.completed_at IS NULL LIMIT 1) AS l
