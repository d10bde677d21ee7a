-- The topics that are paused or have rows aside.
SELECT s.lane, s.topic, s.paused, s.aside, s.oldest_seconds AS oldest,
       extract(epoch FROM clock_timestamp() - s.changed_at)::float8 AS changed
FROM {{.Q "_topics"}}() AS s
LIMIT $1::int
