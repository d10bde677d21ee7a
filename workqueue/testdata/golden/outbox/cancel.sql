-- $1 reason
-- $2 ids
WITH changed AS (
    UPDATE "txwork"."outbox" AS t
    SET cancelled_at = pg_catalog.clock_timestamp(),
        status = CASE WHEN t.status = 0 THEN 3 ELSE t.status END,
        completed_at = CASE WHEN t.status = 0 THEN pg_catalog.clock_timestamp() END,
        failed_at = CASE WHEN t.status = 0 THEN pg_catalog.clock_timestamp() END,
        owner_token = CASE WHEN t.status = 1 THEN t.owner_token END,
        last_error = $1::pg_catalog.text
    WHERE t.id = ANY ($2::pg_catalog.uuid[]) AND t.status IN (0, 1) AND t.cancelled_at IS NULL
    RETURNING t.id, t.status
), told AS (
    SELECT pg_catalog.array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN pg_catalog.bool_or(changed.status = 1) THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('txwork.outbox', 'cancel') ELSE ''::pg_catalog.void END) IS NOT NULL ELSE true END
)
SELECT pg_catalog.unnest(told.ids) AS id FROM told;
