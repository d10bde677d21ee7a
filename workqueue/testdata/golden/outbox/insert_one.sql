-- $1 id
-- $2 column_topic
-- $3 column_payload
INSERT INTO "txwork"."outbox" (id, due_at, max_attempts, waiting, headers, retry, "topic", "payload")
SELECT $1::pg_catalog.uuid, pg_catalog.now(), 15, false, NULL, NULL, $2::pg_catalog.text, $3::pg_catalog.bytea;
