-- Rows that wait for something else, up to so many of those that came first: how many, and how long ago the first was written.
SELECT count(*) AS rows, coalesce(extract(epoch FROM now() - min(w.created_at)), 0)::float8 AS oldest
FROM (
    SELECT r.created_at
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND r.waiting
    ORDER BY r.id
    LIMIT $1::int) AS w
