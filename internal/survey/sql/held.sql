-- The number of waiting rows, among the first $1 of them, and how long ago the oldest of the first 50 was created: ids
-- begin with their time. The index has what is counted, so that the rows, of which each may be on a page of its own,
-- are not read.
SELECT count(*) AS rows,
       coalesce(extract(epoch FROM now() - (
           SELECT min(o.created_at)
           FROM (
               SELECT r.created_at
               FROM {{.Table}} AS r
               WHERE r.completed_at IS NULL AND r.waiting
               ORDER BY r.id
               LIMIT 50) AS o)), 0)::float8 AS oldest
FROM (
    SELECT
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND r.waiting
    ORDER BY r.id
    LIMIT $1::int) AS w
