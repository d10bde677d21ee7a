-- $1 actor
-- $2 ids
WITH changed AS (
    UPDATE "billing"."invoices" AS t
    SET status = 0,
        waiting = false,
        attempts = 0,
        due_at = pg_catalog.clock_timestamp(),
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL,
        owner_token = NULL,
        headers = CASE WHEN pg_catalog.jsonb_typeof(t.headers) = 'object' THEN t.headers - ARRAY['txwork-lost-alone', 'txwork-lost-together', 'txwork-lost-at', 'txwork-lost-beside', 'txwork-running', 'txwork-redriven-by', 'txwork-redriven-at', 'txwork-permanent']
            ELSE coalesce(t.headers, '{}'::pg_catalog.jsonb) END || pg_catalog.jsonb_build_object(
            'txwork-redriven-by', coalesce($1::pg_catalog.text, session_user::pg_catalog.text),
            'txwork-redriven-at', pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($2::pg_catalog.uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT pg_catalog.array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN pg_catalog.count(*) > 0 THEN (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
)
SELECT pg_catalog.unnest(told.ids) AS id FROM told;
