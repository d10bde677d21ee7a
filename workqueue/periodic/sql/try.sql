-- Like find.sql, but skips a row that another session holds.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name = $1
FOR NO KEY UPDATE SKIP LOCKED
