-- Which tables reapers lead, or led last.
SELECT l.name AS table, l.term, extract(epoch FROM clock_timestamp() - l.expires_at)::float8 AS ended,
       coalesce(l.problem, '') AS problem
FROM {{.}} AS l
ORDER BY l.expires_at DESC
LIMIT 1000
