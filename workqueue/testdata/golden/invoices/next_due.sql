-- $1 column_region
-- $2 column_priority
-- $3 since
SELECT now() AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM unnest($1::text[], $2::smallint[])
    AS l (c1, c2)
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least($3::timestamptz, now())
      AND r."region" = l.c1
      AND r."priority" = l.c2
    ORDER BY r."region", r."priority", r.due_at, r.id
    LIMIT 1
) AS d;
