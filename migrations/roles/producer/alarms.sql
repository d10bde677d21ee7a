-- The API creates alarms, shows them to their owners and cancels them.
GRANT SELECT,
    INSERT (owner_did, user_id, label, kind, fire_at, cron_expr, timezone, next_fire_at, conversation_id, wake_message,
        payload, idempotency_key, max_failures),
    UPDATE (status, claimed_at, updated_at)
ON {{.Q .Table}} TO {{.Role "producer"}};
