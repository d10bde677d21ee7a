-- $1 ids
-- $2 tokens
UPDATE "txwork"."outbox" AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
FROM unnest($1::uuid[], $2::uuid[]) AS s (id, token)
WHERE t.id = ANY ($1::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id;
