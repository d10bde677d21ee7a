-- An owner's alarms, the newest first, from alarms_owner_idx: reads only.
SELECT {{template "columns" .}}
FROM {{.Table}} AS a
WHERE a.owner_did = $1::text
ORDER BY a.created_at DESC, a.id DESC
LIMIT $2::int
