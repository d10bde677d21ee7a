-- $1 id
-- $2 column_region
-- $3 column_priority
INSERT INTO "billing"."invoices" (id, due_at, max_attempts, waiting, headers, retry, "region", "priority")
SELECT $1::pg_catalog.uuid, pg_catalog.now(), 5, false, NULL, NULL, $2::pg_catalog.text, $3::smallint;
