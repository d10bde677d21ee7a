-- Who leads, or led last.
SELECT l.term, l.holder, extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS seconds
FROM {{leader}} AS l
WHERE l.name = $1::text
