-- The owner's alarm with the given idempotency key. Reads only.
SELECT {{template "current" .}}
FROM {{.Table}} AS a
{{template "timer" .}}
WHERE a.owner_did = $1::text AND a.idempotency_key = $2::text AND a.idempotency_key <> ''
