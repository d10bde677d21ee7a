-- $1 age
-- $2 max_rows
DELETE FROM "txwork"."outbox" AS t
WHERE t.ctid = ANY (ARRAY(
    SELECT r.ctid
    FROM "txwork"."outbox" AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < pg_catalog.now() - $1::interval
    ORDER BY r.failed_at, r.id
    LIMIT $2::int
    FOR UPDATE SKIP LOCKED))
RETURNING t.id;
