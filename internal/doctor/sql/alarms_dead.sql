-- The timers of alarms among the latest $2 dead letters of the last $1 seconds, the latest first. The index of dead
-- letters has them in this order. If there are none, one row without a key says whether there may be more dead letters
-- than were looked at.
WITH dead AS MATERIALIZED (
    SELECT t.key, t.topic, t.failed_at
    FROM {{.Table}} AS t
    WHERE t.failed_at IS NOT NULL AND t.cancelled_at IS NULL AND t.failed_at > now() - $1::float8 * interval '1 second'
    ORDER BY t.failed_at DESC, t.id DESC
    LIMIT $2::int
)
SELECT coalesce(s.key, '') AS key, coalesce(extract(epoch FROM now() - s.failed_at)::float8, 0) AS failed, n.more
FROM (SELECT count(*) >= $2::int AS more FROM dead) AS n
LEFT JOIN dead AS s ON s.topic = $3::text
ORDER BY s.failed_at DESC, s.key
