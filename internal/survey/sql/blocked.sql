-- Ordered keys with a dead letter in the way, one step of its index for each, and what waits behind it.
WITH RECURSIVE k AS (
    (SELECT r.gate_key
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.gate_policy > 0 END
    ORDER BY r.gate_key, r.gate_seq
    LIMIT 1)
    UNION ALL
    SELECT n.gate_key
    FROM k
    CROSS JOIN LATERAL (
        SELECT r.gate_key
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.gate_policy > 0 END AND r.gate_key > k.gate_key
        ORDER BY r.gate_key, r.gate_seq
        LIMIT 1) AS n
), few AS MATERIALIZED (
    SELECT k.gate_key FROM k LIMIT $1::int
)
SELECT s.gate_key AS key, f.id::text AS id, coalesce(f.last_error, '') AS error, f.label, extract(epoch FROM now() - f.failed_at)::float8 AS failed,
       b.behind, b.oldest
FROM few AS s
CROSS JOIN LATERAL (
    SELECT r.id, r.last_error, r.failed_at, r.gate_seq, coalesce({{.Label}}, '') AS label
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.gate_policy > 0 END AND r.gate_key = s.gate_key
    ORDER BY r.gate_key, r.gate_seq
    LIMIT 1) AS f
CROSS JOIN LATERAL (
    SELECT count(*) AS behind, coalesce(extract(epoch FROM now() - min(w.created_at)), 0)::float8 AS oldest
    FROM (
        SELECT r.created_at
        FROM {{.Table}} AS r
        WHERE CASE WHEN r.completed_at IS NULL AND r.gate_seq IS NOT NULL AND r.gate_limit = 0 THEN r.waiting END
          AND r.gate_key = s.gate_key AND r.gate_seq > f.gate_seq
        ORDER BY r.gate_key, r.gate_seq
        LIMIT $2::int) AS w) AS b
WHERE b.behind > 0
ORDER BY b.oldest DESC
LIMIT $3::int
