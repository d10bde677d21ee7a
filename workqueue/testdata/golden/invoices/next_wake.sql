SELECT extract(epoch FROM pg_catalog.min(w.at) - pg_catalog.clock_timestamp())::pg_catalog.float8 AS seconds, pg_catalog.min(w.at) AS at
FROM (
    (SELECT pg_catalog.min(r.due_at) AS at FROM "billing"."invoices" AS r WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0)
    UNION ALL
    (SELECT pg_catalog.min(r.locked_until) FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= pg_catalog.now())
) AS w
HAVING pg_catalog.min(w.at) IS NOT NULL;
