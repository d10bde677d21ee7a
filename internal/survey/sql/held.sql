-- The number of waiting rows, among the first $1 of them, and how long ago the oldest was created.
SELECT count(*) AS rows, coalesce(extract(epoch FROM now() - min(w.created_at)), 0)::float8 AS oldest
FROM (
    SELECT r.created_at
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND r.waiting
    ORDER BY r.id
    LIMIT $1::int) AS w
