{{define "columns"}}a.id, a.owner_did, a.user_id, a.label, a.kind, a.fire_at, a.cron_expr, a.timezone, a.next_fire_at,
       a.conversation_id, a.wake_message, a.payload::text, a.status, a.idempotency_key, a.max_failures,
       a.failure_count, a.last_error, a.claimed_at, a.created_at, a.updated_at, a.last_fired_at{{end}}
