-- $1 owner_token
-- $2 lease
-- $3 after_due
-- $4 after_id
-- $5 column_region
-- $6 column_priority
-- $7 batch_size
UPDATE "billing"."invoices" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::pg_catalog.uuid,
    locked_until = pg_catalog.clock_timestamp() + $2::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest($3::pg_catalog.timestamptz[], $4::pg_catalog.uuid[], $5::pg_catalog.text[], $6::smallint[])
        AS l (after_due, after_id, c1, c2)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "billing"."invoices" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= pg_catalog.now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          AND r."region" = l.c1
          AND r."priority" = l.c2
        ORDER BY r."region", r."priority", r.due_at, r.id
        LIMIT $7::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $7::int))
RETURNING t.id, t.due_at, t.created_at, t.attempts,
    t.max_attempts, t.headers::pg_catalog.text AS headers, false AS noted, t."region", t."priority", t."amount", t."order", t."due";
