-- Ordered keys with a dead letter that blocks them, found by one step of its index for each, and the rows behind it.
WITH RECURSIVE k AS (
    (SELECT r.concurrency_key
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
    ORDER BY r.concurrency_key, r.key_seq
    LIMIT 1)
    UNION ALL
    SELECT n.concurrency_key
    FROM k
    CROSS JOIN LATERAL (
        SELECT r.concurrency_key
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
          AND r.concurrency_key > k.concurrency_key
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1) AS n
), few AS MATERIALIZED (
    SELECT k.concurrency_key FROM k LIMIT $1::int
)
SELECT s.concurrency_key AS key, f.id::text AS id, coalesce(f.last_error, '') AS error, f.label,
       extract(epoch FROM now() - f.failed_at)::float8 AS failed, b.behind, b.oldest
FROM few AS s
CROSS JOIN LATERAL (
    SELECT r.id, r.last_error, r.failed_at, r.key_seq, coalesce({{.Label}}, '') AS label
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
      AND r.concurrency_key = s.concurrency_key
    ORDER BY r.concurrency_key, r.key_seq
    LIMIT 1) AS f
CROSS JOIN LATERAL (
    SELECT count(*) AS behind, coalesce(extract(epoch FROM now() - min(w.created_at)), 0)::float8 AS oldest
    FROM (
        SELECT r.created_at
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN r.waiting END
          AND r.concurrency_key = s.concurrency_key AND r.key_seq > f.key_seq
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT $2::int) AS w) AS b
WHERE b.behind > 0
ORDER BY b.oldest DESC
LIMIT $3::int
