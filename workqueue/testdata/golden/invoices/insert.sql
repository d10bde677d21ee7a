-- $1 ids
-- $2 due_at
-- $3 max_attempts
-- $4 waiting
-- $5 headers
-- $6 retry
-- $7 column_region
-- $8 column_priority
-- $9 column_amount
-- $10 column_order
-- $11 column_due
INSERT INTO "billing"."invoices" (id, due_at, max_attempts, waiting, headers, retry, "region", "priority", "amount", "order", "due")
SELECT s.id, greatest(s.due_at, pg_catalog.now()), coalesce(s.max_attempts, 5), coalesce(s.waiting, false), s.headers::pg_catalog.jsonb, s.retry::pg_catalog.jsonb, s.c1, s.c2, s.c3::numeric, s.c4::pg_catalog.jsonb, s.c5::pg_catalog.date
FROM unnest(
    $1::pg_catalog.uuid[],
    $2::pg_catalog.timestamptz[],
    $3::int[],
    $4::boolean[],
    $5::pg_catalog.text[],
    $6::pg_catalog.text[],
    $7::pg_catalog.text[],
    $8::smallint[],
    $9::pg_catalog.text[],
    $10::pg_catalog.text[],
    $11::pg_catalog.text[]
) WITH ORDINALITY AS s (id, due_at, max_attempts, waiting, headers, retry, c1, c2, c3, c4, c5, ord)
ORDER BY s.ord;
