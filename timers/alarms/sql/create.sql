-- Inserts an alarm, or nothing if its owner has one with the same key. It waits for a concurrent insert of the key: if
-- that commits, this writes nothing, and the read that follows finds the other's row.
INSERT INTO {{.Table}} AS a (owner_did, user_id, label, kind, fire_at, cron_expr, timezone, next_fire_at,
    conversation_id, wake_message, payload, idempotency_key, max_failures)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::timestamptz, $6::text, $7::text, $8::timestamptz,
    $9::text, $10::text, $11::text::jsonb, $12::text, $13::int)
ON CONFLICT (owner_did, idempotency_key) WHERE idempotency_key <> '' DO NOTHING
RETURNING {{template "columns" .}}
