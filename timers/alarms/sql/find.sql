-- The alarm that holds an owner's key: reads only.
SELECT {{template "columns" .}}
FROM {{.Table}} AS a
WHERE a.owner_did = $1::text AND a.idempotency_key = $2::text AND a.idempotency_key <> ''
