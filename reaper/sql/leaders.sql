-- Who leads tables, or led them last.
SELECT l.name AS table, l.term, l.holder, extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS seconds
FROM {{leader}} AS l
ORDER BY l.name
