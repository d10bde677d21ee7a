-- Whether a live timer of the schedule exists, as 0 or 1. The index holds live timers of schedules only.
SELECT count(*) FROM (SELECT FROM {{.Table}} AS t WHERE t.schedule = $1 AND t.completed_at IS NULL LIMIT 1) AS l
