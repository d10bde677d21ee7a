-- The number of dead letters among the last $1 rows that ended without success, and how many of them are of the last $2
-- seconds.
SELECT count(*) AS rows, count(*) FILTER (WHERE d.failed_at > now() - $2::float8 * interval '1 second') AS recent
FROM (
    SELECT r.failed_at, r.cancelled_at
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL
    ORDER BY r.failed_at DESC, r.id DESC
    LIMIT $1::int) AS d
WHERE d.cancelled_at IS NULL
