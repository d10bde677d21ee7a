-- find.sql for a row that nobody holds.
SELECT {{template "columns" .}}, clock_timestamp()
FROM {{.Table}} AS t
WHERE t.name = $1
FOR NO KEY UPDATE SKIP LOCKED
