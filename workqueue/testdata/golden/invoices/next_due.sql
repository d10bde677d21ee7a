-- $1 since
-- $2 column_region
-- $3 column_priority
SELECT now() AS asked_at, extract(epoch FROM d.due_at - clock_timestamp())::float8 AS seconds, d.due_at
FROM (SELECT) AS always
LEFT JOIN LATERAL (
    SELECT r.due_at
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least($1::timestamptz, now())
      AND r."region" = $2::text
      AND r."priority" = $3::smallint
    ORDER BY r."region", r."priority", r.due_at, r.id
    LIMIT 1
) AS d ON true;
