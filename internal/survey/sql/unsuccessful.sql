-- The dead letters and the cancelled rows among the last $1 rows that ended without success.
SELECT count(*) FILTER (WHERE s.cancelled_at IS NULL) AS failed,
       count(*) FILTER (WHERE s.cancelled_at IS NOT NULL) AS cancelled
FROM (
    SELECT r.cancelled_at
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL
    ORDER BY r.failed_at DESC, r.id DESC
    LIMIT $1::int) AS s
