-- Schedules by name, in byte order, after a name. There are few of them: no index serves this order.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name COLLATE "C" > $1 AND starts_with(t.name, $2)
ORDER BY t.name COLLATE "C"
LIMIT $3
