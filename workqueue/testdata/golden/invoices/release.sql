-- $1 ids
-- $2 tokens
WITH changed AS (
    UPDATE "billing"."invoices" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token)
    WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN pg_catalog.min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
)
SELECT changed.id, changed.status, changed.cancelled FROM changed, told;
