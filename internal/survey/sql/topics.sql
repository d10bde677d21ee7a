-- The topics that are paused, rest or have rows aside, those whose rows have waited longest first. At most $1 rows are
-- counted, of all topics together.
SELECT s.lane, s.topic, s.paused, s.aside, s.more, s.oldest_seconds AS oldest,
       extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS changed,
       extract(epoch FROM clock_timestamp() - s.unavailable_since)::float8 AS unavailable,
       extract(epoch FROM s.rests_until - clock_timestamp())::float8 AS rests,
       coalesce(s.cause, '') AS cause, count(*) OVER () AS topics
FROM {{.Q "_topics"}}($1::int) AS s
ORDER BY s.oldest_seconds DESC, s.lane, s.topic
