{{define "columns"}}a.id, a.owner_did, a.user_id, a.label, a.kind, a.fire_at, a.cron_expr, a.timezone, a.next_fire_at,
       a.conversation_id, a.wake_message, a.payload::text, a.status, a.idempotency_key, a.max_failures,
       a.failure_count, a.last_error, a.claimed_at, a.created_at, a.updated_at, a.last_fired_at{{end}}

{{- /* current are the columns for readers. While the timer t is not claimed, no delivery is under way, even if
       claimed_at is set: the delivery was lost with its process and reaped, or put back. */ -}}
{{define "current"}}a.id, a.owner_did, a.user_id, a.label, a.kind, a.fire_at, a.cron_expr, a.timezone,
       CASE WHEN {{template "ended"}} THEN t.due_at ELSE a.next_fire_at END,
       a.conversation_id, a.wake_message, a.payload::text, a.status, a.idempotency_key, a.max_failures, a.failure_count,
       CASE WHEN {{template "ended"}} AND starts_with(t.last_error, 'lease expired at ') THEN t.last_error
           ELSE a.last_error END,
       CASE WHEN {{template "ended"}} THEN NULL ELSE a.claimed_at END,
       a.created_at, a.updated_at, a.last_fired_at{{end}}
{{- define "ended"}}a.claimed_at IS NOT NULL AND t.status <> 1{{end}}
{{- define "timer"}}LEFT JOIN {{.Timers}} AS t ON t.key = '{{.Prefix}}' || a.id::text{{end}}
