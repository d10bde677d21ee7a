-- The ids and states of a bounded number of joins of any state, the newest first.
SELECT a.id::text AS id, a.status
FROM {{.Q "_join"}} AS a
WHERE a.id < $1::uuid{{if .Labelled}} AND a.label = $3::text{{end}}
ORDER BY a.id DESC
LIMIT $2::int
