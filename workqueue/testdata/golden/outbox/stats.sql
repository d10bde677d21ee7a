SELECT pg_catalog.count(*) FILTER (WHERE r.status = 0 AND r.due_at <= pg_catalog.now()) AS ready,
       pg_catalog.count(*) FILTER (WHERE r.status = 0 AND r.due_at > pg_catalog.now()) AS scheduled,
       pg_catalog.count(*) FILTER (WHERE r.status = 1) AS in_progress,
       pg_catalog.count(*) FILTER (WHERE r.status = 1 AND r.locked_until < pg_catalog.now()) AS expired,
       (SELECT pg_catalog.count(*) FROM "txwork"."outbox" AS w WHERE w.completed_at IS NULL AND w.waiting) AS waiting,
       (SELECT pg_catalog.count(*) FROM "txwork"."outbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NULL) AS failed,
       (SELECT pg_catalog.count(*) FROM "txwork"."outbox" AS f WHERE f.failed_at IS NOT NULL AND f.cancelled_at IS NOT NULL) AS cancelled,
       coalesce(extract(epoch FROM pg_catalog.now() - pg_catalog.min(r.due_at) FILTER (WHERE r.status = 0 AND r.due_at <= pg_catalog.now())), 0)::pg_catalog.float8
           AS oldest_ready_seconds,
       pg_catalog.row_security_active('"txwork"."outbox"'::pg_catalog.regclass) AS partial
FROM "txwork"."outbox" AS r
WHERE r.completed_at IS NULL AND NOT r.waiting;
