-- $1 column_region
-- $2 column_priority
-- $3 since
SELECT pg_catalog.now() AS asked_at, extract(epoch FROM pg_catalog.min(d.due_at) - pg_catalog.clock_timestamp())::pg_catalog.float8 AS seconds,
    pg_catalog.min(d.due_at) AS due_at
FROM unnest($1::pg_catalog.text[], $2::smallint[])
    AS l (c1, c2)
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least($3::pg_catalog.timestamptz, pg_catalog.now())
      AND r."region" = l.c1
      AND r."priority" = l.c2
    ORDER BY r."region", r."priority", r.due_at, r.id
    LIMIT 1
) AS d;
