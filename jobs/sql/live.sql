-- Whether a job of a schedule has not ended, as 0 or 1. Reads only the index of those.
SELECT count(*) FROM (SELECT FROM {{.Table}} AS t WHERE t.schedule = $1::text AND t.completed_at IS NULL LIMIT 1) AS l
