-- Whether a schedule has a job that has not ended, as 0 or 1. Reads only the index of such jobs. -1: row-level security
-- may hide it.
SELECT CASE WHEN {{.Hides}} THEN -1 ELSE count(*) END
FROM (SELECT FROM {{.Table}} AS t WHERE t.schedule = $1::text AND t.completed_at IS NULL LIMIT 1) AS l
