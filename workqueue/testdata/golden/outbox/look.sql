-- $1 worker
-- $2 asked_before
-- $3 after_due
-- $4 after_id
SELECT l.worker, pg_catalog.bool_or(d.found) AS found, pg_catalog.now() AS asked_at,
    extract(epoch FROM pg_catalog.min(d.due_at) - pg_catalog.clock_timestamp())::pg_catalog.float8 AS seconds, pg_catalog.min(d.due_at) AS due_at
FROM unnest($1::int[], $2::pg_catalog.timestamptz[], $3::pg_catalog.timestamptz[], $4::pg_catalog.uuid[])
    AS l (worker, since, after_due, after_id)
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT
        FROM "txwork"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= pg_catalog.now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
    ) AS found, (
        SELECT r.due_at
        FROM "txwork"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at > least(l.since, pg_catalog.now())
        ORDER BY r.due_at, r.id
        LIMIT 1
    ) AS due_at
) AS d
GROUP BY l.worker;
