-- $1 age
-- $2 max_rows
DELETE FROM "billing"."invoices" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "billing"."invoices" AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < pg_catalog.now() - $1::interval
    ORDER BY r.completed_at
    LIMIT $2::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id;
