-- A schedule by name, and the time: reads only.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name = $1
