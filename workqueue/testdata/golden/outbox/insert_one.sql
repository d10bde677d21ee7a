-- $1 id
-- $2 column_topic
-- $3 column_payload
INSERT INTO "txwork"."outbox" (id, due_at, max_attempts, waiting, headers, retry, "topic", "key", "payload", "dedup_key")
SELECT $1::uuid, now(), 10, false, NULL, NULL, $2::text, NULL, $3::bytea, NULL;
