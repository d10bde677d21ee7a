-- The number of dead letters, up to $1 and among the last $3 rows that ended without success, how many of them are of
-- the last $2 seconds, and whether there may be more. Cancelled rows are passed over without using up the first bound.
SELECT c.rows, c.recent,
       CASE WHEN c.rows >= $1::int THEN true
           ELSE EXISTS (
               SELECT FROM {{.Table}} AS r
               WHERE r.failed_at IS NOT NULL
               ORDER BY r.failed_at DESC, r.id DESC
               OFFSET $3::int LIMIT 1) END AS more
FROM (
    SELECT count(*) AS rows,
           count(*) FILTER (WHERE d.failed_at > now() - $2::float8 * interval '1 second') AS recent
    FROM (
        SELECT s.failed_at
        FROM (
            SELECT r.failed_at, r.cancelled_at
            FROM {{.Table}} AS r
            WHERE r.failed_at IS NOT NULL
            ORDER BY r.failed_at DESC, r.id DESC
            LIMIT $3::int) AS s
        WHERE s.cancelled_at IS NULL
        LIMIT $1::int) AS d) AS c
