{{define "columns"}}t.id, t.name, t.expr, t.zone, t.misfire, t.cap, t.grace, t.overlap, t.jitter, t.template, t.paused,
       t.next_at, t.last_at, t.buffered_at, t.fired, t.skipped, t.status, coalesce(t.last_error, ''),
       t.created_at, greatest(t.attempts - t.status, 0)::integer, coalesce(t.headers ->> 'txwork-ahead', ''),
       coalesce(t.owed::text, ''), t.anchor, coalesce(t.version, 0), t.resumed_at,
       coalesce(t.triggers::text, ''){{end}}
