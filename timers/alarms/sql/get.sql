-- An owner's alarm: reads only. One of another owner is not there.
SELECT {{template "current" .}}
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.id = $1::uuid AND a.owner_did = $2::text
