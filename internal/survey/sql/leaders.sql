-- The elections of reapers, who leads or led last first.
SELECT l.name, l.term, extract(epoch FROM clock_timestamp() - l.expires_at)::float8 AS ended
FROM {{.}} AS l
ORDER BY l.expires_at DESC
LIMIT 10
