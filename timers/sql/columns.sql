{{define "columns"}}t.id, t.key, t.topic, t.payload, t.headers::text, t.fire_at, t.due_at, t.generation, t.schedule,
       t.status, t.attempts, t.max_attempts, coalesce(t.last_error, ''), t.created_at, t.completed_at, t.cancelled_at,
       t.rearm_at{{end}}
