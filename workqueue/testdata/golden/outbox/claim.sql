-- $1 owner_token
-- $2 lease
-- $3 after_due
-- $4 after_id
-- $5 batch_size
UPDATE "txwork"."outbox" AS t
SET status = 1,
    attempts = t.attempts + 1,
    owner_token = $1::pg_catalog.uuid,
    locked_until = pg_catalog.clock_timestamp() + $2::interval
WHERE t.ctid = ANY (ARRAY(
    SELECT c.ctid
    FROM unnest($3::pg_catalog.timestamptz[], $4::pg_catalog.uuid[])
        AS l (after_due, after_id)
    CROSS JOIN LATERAL (
        SELECT r.ctid
        FROM "txwork"."outbox" AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= pg_catalog.now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
        ORDER BY r.due_at, r.id
        LIMIT $5::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT $5::int))
RETURNING t.id, t.due_at, t.created_at, t.attempts,
    t.max_attempts, t.headers::pg_catalog.text AS headers, false AS noted, t."topic", t."key", t."payload", t."dedup_key";
