-- $1 worker
-- $2 asked_before
-- $3 after_due
-- $4 after_id
-- $5 column_region
-- $6 column_priority
SELECT l.worker, pg_catalog.bool_or(d.found) AS found, pg_catalog.now() AS asked_at,
    extract(epoch FROM pg_catalog.min(d.due_at) - pg_catalog.clock_timestamp())::pg_catalog.float8 AS seconds, pg_catalog.min(d.due_at) AS due_at
FROM unnest($1::int[], $2::pg_catalog.timestamptz[], $3::pg_catalog.timestamptz[], $4::pg_catalog.uuid[], $5::pg_catalog.text[], $6::smallint[])
    AS l (worker, since, after_due, after_id, c1, c2)
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= pg_catalog.now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."region" = l.c1
          AND r."priority" = l.c2
    ) AS found, (
        SELECT r.due_at
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at > least(l.since, pg_catalog.now())
          AND r."region" = l.c1
          AND r."priority" = l.c2
        ORDER BY r."region", r."priority", r.due_at, r.id
        LIMIT 1
    ) AS due_at
) AS d
GROUP BY l.worker;
