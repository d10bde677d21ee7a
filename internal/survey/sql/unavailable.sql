-- How long the destination of a topic has been unavailable, the longest. The condition is that of the index.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(p.unavailable_since)), 0)::float8 AS seconds
FROM {{.Q "_topic"}} AS p
WHERE p.paused OR p.unavailable_since IS NOT NULL
