-- The sources of a consumer's messages by steps of their unique index, with how many messages are kept of each, among
-- at most $2 messages. At most $1 pairs of consumer and source behind the given one.
WITH RECURSIVE s AS (
    (SELECT r.consumer, r.source FROM {{.Table}} AS r
    WHERE r.consumer IS NOT NULL AND r.source IS NOT NULL AND r.message_id IS NOT NULL
      AND (r.consumer, r.source) > ($3::text, $4::text)
    ORDER BY r.consumer, r.source, r.message_id LIMIT 1)
    UNION ALL
    SELECT n.consumer, n.source
    FROM s
    CROSS JOIN LATERAL (
        SELECT r.consumer, r.source FROM {{.Table}} AS r
        WHERE r.consumer IS NOT NULL AND r.source IS NOT NULL AND r.message_id IS NOT NULL
          AND (r.consumer, r.source) > (s.consumer, s.source)
        ORDER BY r.consumer, r.source, r.message_id LIMIT 1) AS n
), few AS MATERIALIZED (
    SELECT s.consumer, s.source FROM s LIMIT $1::int
)
SELECT f.consumer, f.source, n.messages
FROM few AS f
CROSS JOIN LATERAL (
    SELECT count(*) AS messages FROM (
        SELECT FROM {{.Table}} AS r
        WHERE r.consumer IS NOT NULL AND r.source IS NOT NULL AND r.message_id IS NOT NULL
          AND r.consumer = f.consumer AND r.source = f.source
        LIMIT $2::int) AS m) AS n
ORDER BY f.consumer, f.source
