-- $1 ids
-- $2 due_at
-- $3 max_attempts
-- $4 waiting
-- $5 headers
-- $6 retry
-- $7 column_topic
-- $8 column_key
-- $9 column_payload
-- $10 column_dedup_key
INSERT INTO "txwork"."outbox" (id, due_at, max_attempts, waiting, headers, retry, "topic", "key", "payload", "dedup_key")
SELECT s.id, greatest(s.due_at, pg_catalog.now()), coalesce(s.max_attempts, 15), coalesce(s.waiting, false), s.headers::pg_catalog.jsonb, s.retry::pg_catalog.jsonb, s.c1, s.c2, s.c3, s.c4
FROM unnest(
    $1::pg_catalog.uuid[],
    $2::pg_catalog.timestamptz[],
    $3::int[],
    $4::boolean[],
    $5::pg_catalog.text[],
    $6::pg_catalog.text[],
    $7::pg_catalog.text[],
    $8::pg_catalog.text[],
    $9::pg_catalog.bytea[],
    $10::pg_catalog.text[]
) WITH ORDINALITY AS s (id, due_at, max_attempts, waiting, headers, retry, c1, c2, c3, c4, ord)
ORDER BY s.ord
ON CONFLICT ("topic", "dedup_key")
    WHERE "topic" IS NOT NULL AND "dedup_key" IS NOT NULL DO NOTHING
RETURNING id;
