-- A schedule by name, and the current time. Reads only.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name = $1
