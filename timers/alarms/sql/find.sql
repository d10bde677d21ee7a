-- The alarm that holds an owner's key: reads only.
SELECT {{template "current" .}}
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.owner_did = $1::text AND a.idempotency_key = $2::text AND a.idempotency_key <> ''
