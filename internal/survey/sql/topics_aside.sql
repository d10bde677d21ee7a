-- The topics with rows that have been aside for $1 seconds, by their state: of each, the $2 whose rows have waited
-- longest, and how many there are, of at most $3 topics that are looked at. If there are none, one row without a topic
-- says whether there may be more than that.
WITH looked AS MATERIALIZED (
    SELECT * FROM {{.Q "_topics"}}($3::int)
)
SELECT coalesce(s.lane, '') AS lane, coalesce(s.topic, '') AS topic, coalesce(s.paused, false) AS paused,
       coalesce(s.aside, 0) AS aside, coalesce(s.more, false) AS more, coalesce(s.oldest_seconds, 0) AS oldest,
       extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS changed,
       extract(epoch FROM clock_timestamp() - s.unavailable_since)::float8 AS unavailable,
       extract(epoch FROM s.rests_until - clock_timestamp())::float8 AS rests,
       coalesce(s.cause, '') AS cause, coalesce(s.topics, 0) AS topics, coalesce(s.state, '') AS state, n.cut
FROM (
    SELECT count(*) FILTER (WHERE l.aside > 0) >= $3::int
               OR count(*) FILTER (WHERE l.paused OR l.unavailable_since IS NOT NULL) >= $3::int AS cut
    FROM looked AS l
) AS n
LEFT JOIN (
    SELECT l.*, count(*) OVER (PARTITION BY l.state) AS topics,
           row_number() OVER (PARTITION BY l.state ORDER BY l.oldest_seconds DESC, l.lane, l.topic) AS place
    FROM (
        SELECT a.*, CASE WHEN a.paused THEN 'paused' WHEN a.unavailable_since IS NOT NULL THEN 'unavailable'
            ELSE 'behind' END AS state
        FROM looked AS a
        WHERE a.aside > 0 AND a.oldest_seconds >= $1::float8) AS l
) AS s ON s.place <= $2::int
ORDER BY s.state, s.place
