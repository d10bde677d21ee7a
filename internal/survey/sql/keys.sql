-- Ordered keys with waiting rows, found by one step of their index for each: how many rows wait, and what the first of
-- them waits for. That is a dead letter, or the released row; without either, the next fold releases the first row.
WITH RECURSIVE k AS (
    (SELECT r.concurrency_key
    FROM {{.Table}} AS r
    WHERE {{template "ordered waits" .}} AND r.concurrency_key > $1::text
    ORDER BY r.concurrency_key, r.key_seq
    LIMIT 1)
    UNION ALL
    SELECT n.concurrency_key
    FROM k
    CROSS JOIN LATERAL (
        SELECT r.concurrency_key
        FROM {{.Table}} AS r
        WHERE {{template "ordered waits" .}} AND r.concurrency_key > k.concurrency_key
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT 1) AS n
), few AS MATERIALIZED (
    SELECT k.concurrency_key FROM k LIMIT $2::int
)
SELECT s.concurrency_key AS key, w.waiting, w.oldest, w.next, coalesce(f.id, l.id)::text AS blocker,
       coalesce(f.label, l.label, '') AS label, coalesce(f.last_error, l.last_error) AS error,
       CASE
           WHEN f.id IS NOT NULL THEN 'dead_letter'
           WHEN l.status = 1 AND l.locked_until < now() THEN 'expired'
           WHEN l.status = 1 THEN 'in_progress'
           WHEN l.due_at > now() THEN 'scheduled'
           WHEN l.id IS NOT NULL THEN 'ready'
           ELSE 'fold' END AS reason
FROM few AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(b.created_at)), 0)::float8 AS oldest,
           (array_agg(b.id::text ORDER BY b.key_seq))[1] AS next, min(b.key_seq) AS place
    FROM (
        SELECT r.id, r.created_at, r.key_seq
        FROM {{.Table}} AS r
        WHERE {{template "ordered waits" .}} AND r.concurrency_key = s.concurrency_key
        ORDER BY r.concurrency_key, r.key_seq
        LIMIT $3::int) AS b) AS w
LEFT JOIN LATERAL (
    SELECT r.id, r.last_error, {{.Label}} AS label
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
      AND r.concurrency_key = s.concurrency_key AND r.key_seq < w.place
    ORDER BY r.concurrency_key, r.key_seq
    LIMIT 1) AS f ON true
LEFT JOIN LATERAL (
    SELECT r.id, r.status, r.due_at, r.locked_until, r.last_error, {{.Label}} AS label
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN {{.Released}} END
      AND r.concurrency_key = s.concurrency_key AND r.key_limit = 0
    ORDER BY r.concurrency_key, r.key_seq
    LIMIT 1) AS l ON true
ORDER BY s.concurrency_key
{{define "ordered waits" -}}
CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL AND r.key_limit = 0 THEN {{.WaitsForKey}} END
{{- end}}
