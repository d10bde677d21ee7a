-- The topics with rows that have been aside for $2 seconds, those that are paused or the others, the longest first, and
-- how many there are.
SELECT s.lane, s.topic, s.paused, s.aside, s.more, s.oldest_seconds AS oldest,
       extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS changed, count(*) OVER () AS topics
FROM {{.Q "_topics"}}() AS s
WHERE s.paused = $1::bool AND s.aside > 0 AND s.oldest_seconds >= $2::float8
ORDER BY s.oldest_seconds DESC, s.lane, s.topic
LIMIT $3::int
