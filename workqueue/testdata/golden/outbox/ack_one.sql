-- $1 ids
-- $2 owner_token
UPDATE "txwork"."outbox" AS t
SET status = 2,
    completed_at = pg_catalog.clock_timestamp(),
    locked_until = NULL
WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.owner_token = $2::pg_catalog.uuid AND coalesce(t.status = 1, false)
RETURNING t.id;
