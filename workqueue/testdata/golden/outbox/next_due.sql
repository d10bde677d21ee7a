-- $1 since
SELECT pg_catalog.now() AS asked_at, extract(epoch FROM pg_catalog.min(d.due_at) - pg_catalog.clock_timestamp())::pg_catalog.float8 AS seconds,
    pg_catalog.min(d.due_at) AS due_at
FROM (SELECT) AS l
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "txwork"."outbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least($1::pg_catalog.timestamptz, pg_catalog.now())
    ORDER BY r.due_at, r.id
    LIMIT 1
) AS d;
