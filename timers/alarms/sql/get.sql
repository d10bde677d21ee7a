-- An owner's alarm by id. Reads only. It does not find another owner's alarm.
SELECT {{template "current" .}}
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.id = $1::uuid AND a.owner_did = $2::text
