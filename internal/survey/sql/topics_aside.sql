-- The topics with rows that have been aside for $2 seconds, those in the state $1, the longest first, and how many
-- there are, of at most $4 topics that are looked at. If there are none, one row without a topic says whether there may
-- be more than that.
WITH looked AS MATERIALIZED (
    SELECT * FROM {{.Q "_topics"}}($4::int)
)
SELECT coalesce(s.lane, '') AS lane, coalesce(s.topic, '') AS topic, coalesce(s.paused, false) AS paused,
       coalesce(s.aside, 0) AS aside, coalesce(s.more, false) AS more, coalesce(s.oldest_seconds, 0) AS oldest,
       extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS changed,
       extract(epoch FROM clock_timestamp() - s.unavailable_since)::float8 AS unavailable,
       extract(epoch FROM s.rests_until - clock_timestamp())::float8 AS rests,
       coalesce(s.cause, '') AS cause, count(s.topic) OVER () AS topics, n.cut
FROM (
    SELECT count(*) FILTER (WHERE l.aside > 0) >= $4::int
               OR count(*) FILTER (WHERE l.paused OR l.unavailable_since IS NOT NULL) >= $4::int AS cut
    FROM looked AS l
) AS n
LEFT JOIN looked AS s ON CASE WHEN s.paused THEN 'paused' WHEN s.unavailable_since IS NOT NULL THEN 'unavailable'
    ELSE 'behind' END = $1::text AND s.aside > 0 AND s.oldest_seconds >= $2::float8
ORDER BY s.oldest_seconds DESC, s.lane, s.topic
LIMIT $3::int
