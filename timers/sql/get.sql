-- A timer by key: reads only.
SELECT {{template "columns" .}}
FROM {{.Table}} AS t
WHERE t.key = $1
