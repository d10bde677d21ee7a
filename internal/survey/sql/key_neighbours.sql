-- The rows of an ordered key next to a row of it: the dead letter that blocks the key and the row that has its turn,
-- both if they come before the row, and at most $2 rows that wait before it and behind it. Each is found by an index.
WITH this AS MATERIALIZED (
    SELECT r.concurrency_key AS key, r.key_seq AS place
    FROM {{.Table}} AS r
    WHERE r.id = $1::uuid AND r.key_seq IS NOT NULL AND r.key_limit = 0
)
SELECT n.id::text AS id, n.key_seq > t.place AS behind, n.how, coalesce(n.label, '') AS label
FROM this AS t
CROSS JOIN LATERAL (
    (SELECT r.id, r.key_seq, 'blocks the key as a dead letter' AS how, {{.Label}} AS label
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.failed_at IS NOT NULL AND r.cancelled_at IS NULL THEN r.key_policy > 0 END
      AND r.concurrency_key = t.key AND r.key_seq < t.place
    ORDER BY r.concurrency_key, r.key_seq LIMIT 1)
    UNION ALL
    (SELECT r.id, r.key_seq, 'has its turn', {{.Label}}
    FROM {{.Table}} AS r
    WHERE CASE WHEN r.completed_at IS NULL AND r.key_seq IS NOT NULL THEN {{.Released}} END
      AND r.concurrency_key = t.key AND r.key_limit = 0 AND r.key_seq <> t.place
    ORDER BY r.concurrency_key, r.key_seq LIMIT 1)
    UNION ALL
    (SELECT r.id, r.key_seq, 'waits', {{.Label}}
    FROM {{.Table}} AS r
    WHERE {{template "ordered waits" .}} AND r.concurrency_key = t.key AND r.key_seq < t.place
    ORDER BY r.concurrency_key DESC, r.key_seq DESC LIMIT $2::int)
    UNION ALL
    (SELECT r.id, r.key_seq, 'waits', {{.Label}}
    FROM {{.Table}} AS r
    WHERE {{template "ordered waits" .}} AND r.concurrency_key = t.key AND r.key_seq > t.place
    ORDER BY r.concurrency_key, r.key_seq LIMIT $2::int)) AS n
ORDER BY n.key_seq
