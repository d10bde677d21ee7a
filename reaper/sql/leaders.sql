-- Who leads each table, or led it last.
SELECT l.name AS table, l.term, l.holder, extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS seconds,
       coalesce(l.problem, '') AS problem
FROM {{leader}} AS l
ORDER BY l.name
