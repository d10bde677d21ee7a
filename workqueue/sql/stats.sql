-- Depth and age from the index of live rows, dead letters from their own index. Done rows are never counted.
-- Where row-level security hides rows, it says so.
SELECT count(*) FILTER (WHERE r.status = 0 AND r.due_at <= now()) AS ready,
       count(*) FILTER (WHERE r.status = 0 AND r.due_at > now()) AS scheduled,
       count(*) FILTER (WHERE r.status = 1) AS in_progress,
       count(*) FILTER (WHERE r.status = 1 AND r.locked_until < now()) AS expired,
       (SELECT count(*) FROM {{.Table}} AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT count(*) FROM {{.Table}} AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT count(*) FROM {{.Table}} AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM now() - min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= now())), 0)::float8
           AS oldest_ready_seconds,
       row_security_active('{{.Table}}'::regclass) AS partial
FROM {{.Table}} AS r
WHERE r.completed_at IS NULL AND NOT r.waiting
