-- Jobs as they are stored. Reads only.
SELECT t.id, t.kind, t.queue, t.priority, t.args, t.status, t.waiting, t.attempts, t.max_attempts, t.due_at,
       t.created_at, t.completed_at, t.cancelled_at, coalesce(t.last_error, ''), coalesce(t.headers, '{}')::text,
       coalesce(t.unique_key, ''), coalesce(t.schedule, ''), t.progress, coalesce(t.progress_note, ''), t.output
FROM {{.Table}} AS t
