-- $1 ids
-- $2 tokens
DELETE FROM "billing"."invoices" AS t
USING unnest($1::uuid[], $2::uuid[]) AS s (id, token)
WHERE t.id = ANY ($1::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id;
