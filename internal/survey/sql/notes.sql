-- How long the oldest note has waited for a fold.
SELECT '{{.}}' AS notes, (
    SELECT extract(epoch FROM clock_timestamp() - n.at)::float8
    FROM {{.}} AS n
    WHERE n.at <= now()
    ORDER BY n.at
    LIMIT 1) AS age
