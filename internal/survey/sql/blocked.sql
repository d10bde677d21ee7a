-- Ordered keys with a dead letter that blocks them, found by one step of its index for each, how many such keys there
-- are among the first $1, and the rows behind the dead letters of some. How long rows have waited is that of the first.
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
SELECT s.concurrency_key AS key, s.id::text AS id, s.error, s.label, s.failed, b.behind, s.oldest, s.keys, s.more
FROM (
    SELECT k.concurrency_key, f.id, f.error, f.label, f.failed, f.key_seq, count(*) OVER () AS keys,
           (SELECT count(*) FROM few) >= $1::int AS more,
           extract(epoch FROM now() - w.created_at)::float8 AS oldest
    FROM few AS k
    CROSS JOIN LATERAL (
        SELECT r.id, coalesce(r.last_error, '') AS error, r.key_seq, coalesce({{.Label}}, '') AS label,
               extract(epoch FROM now() - r.failed_at)::float8 AS failed
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
          AND r.concurrency_key = k.concurrency_key
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1) AS f
    CROSS JOIN LATERAL (
        SELECT r.created_at
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN {{.WaitsForKey}} END
          AND r.concurrency_key = k.concurrency_key AND r.key_seq > f.key_seq
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1) AS w
    ORDER BY oldest DESC
    LIMIT $3::int) AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS behind
    FROM (
        SELECT
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN {{.WaitsForKey}} END
          AND r.concurrency_key = s.concurrency_key AND r.key_seq > s.key_seq
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT $2::int) AS w) AS b
ORDER BY s.oldest DESC
