-- $1 since
SELECT now() AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM (SELECT) AS l
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "txwork"."outbox" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least($1::timestamptz, now())
    ORDER BY r.due_at, r.id
    LIMIT 1
) AS d;
