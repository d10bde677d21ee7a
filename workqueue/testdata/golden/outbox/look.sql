-- $1 worker
-- $2 asked_before
-- $3 after_due
-- $4 after_id
SELECT l.worker, bool_or(d.found) AS found, now() AS asked_at,
    extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds, min(d.due_at) AS due_at
FROM unnest($1::int[], $2::timestamptz[], $3::timestamptz[], $4::uuid[])
    AS l (worker, since, after_due, after_id)
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT
        FROM "txwork"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
    ) AS found, (
        SELECT r.due_at
        FROM "txwork"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at > least(l.since, now())
        ORDER BY r.due_at, r.id
        LIMIT 1
    ) AS due_at
) AS d
GROUP BY l.worker;
