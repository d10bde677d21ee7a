-- How a job's attempts ended, the oldest first: the recorded attempts that did not succeed, and the one that did.
SELECT a.attempt, a.ended_at, a.outcome, coalesce(a.error, '')
FROM {{.Attempt}} AS a
WHERE a.job_id = $1::uuid
UNION ALL
SELECT t.attempts, t.completed_at, 'succeeded', ''
FROM {{.Table}} AS t
WHERE t.id = $1::uuid AND t.status = 2
ORDER BY 2
