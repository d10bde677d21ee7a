WITH RECURSIVE lane AS (
    (SELECT r."region" AS c1, r."priority" AS c2
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting
    ORDER BY r."region", r."priority"
    LIMIT 1)
    UNION ALL
    SELECT n.*
    FROM lane AS l
    CROSS JOIN LATERAL (
        SELECT r."region", r."priority"
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting
          AND (r."region", r."priority")
            > (l.c1, l.c2)
        ORDER BY r."region", r."priority"
        LIMIT 1
    ) AS n
)
SELECT ARRAY[l.c1::pg_catalog.text, l.c2::pg_catalog.text] AS lane
FROM lane AS l
LIMIT 1000;
