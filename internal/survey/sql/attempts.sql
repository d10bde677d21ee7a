-- How the attempts of a row ended that did not succeed, and its steps that are done, the latest first, at most $2 of
-- them. A step has no attempt, and its name in the place of an error.
SELECT s.attempt, s.ended_at, s.outcome, left(s.error, 1000) AS error
FROM (
    (SELECT a.attempt, a.ended_at, a.outcome, coalesce(a.error, '') AS error
    FROM {{.Q "_attempt"}} AS a
    WHERE a.job_id = $1::uuid
    ORDER BY a.ended_at DESC
    LIMIT $2::int)
    UNION ALL
    (SELECT 0, p.created_at, 'step', p.name
    FROM {{.Q "_step"}} AS p
    WHERE p.job_id = $1::uuid
    LIMIT $2::int)) AS s
ORDER BY s.ended_at DESC
LIMIT $2::int
