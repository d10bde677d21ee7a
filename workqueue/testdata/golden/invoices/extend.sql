-- $1 lease
-- $2 ids
-- $3 tokens
UPDATE "billing"."invoices" AS t
SET locked_until = clock_timestamp() + $1::interval
FROM (
    SELECT r.id
    FROM unnest($2::uuid[], $3::uuid[]) AS s (id, token)
    JOIN "billing"."invoices" AS r ON r.id = s.id
    WHERE r.id = ANY ($2::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED
) AS held
WHERE t.id = held.id AND t.status = 1
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled;
