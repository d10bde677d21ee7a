-- An owner's alarm: reads only. One of another owner is not there.
SELECT {{template "columns" .}}
FROM {{.Table}} AS a
WHERE a.id = $1::uuid AND a.owner_did = $2::text
