-- $1 ids
-- $2 due_at
-- $3 max_attempts
-- $4 headers
-- $5 column_region
-- $6 column_priority
-- $7 column_amount
-- $8 column_order
-- $9 column_due
INSERT INTO "billing"."invoices" (id, due_at, max_attempts, headers, "region", "priority", "amount", "order", "due")
SELECT s.id, greatest(s.due_at, now()), coalesce(s.max_attempts, 5), s.headers::jsonb, s.c1, s.c2, s.c3::numeric, s.c4::jsonb, s.c5::date
FROM unnest(
    $1::uuid[], $2::timestamptz[], $3::int[], $4::text[],
    $5::text[],
    $6::smallint[],
    $7::text[],
    $8::text[],
    $9::text[]
) WITH ORDINALITY AS s (id, due_at, max_attempts, headers, c1, c2, c3, c4, c5, ord)
ORDER BY s.ord
RETURNING id;
