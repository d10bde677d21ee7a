-- $1 ids
-- $2 tokens
-- $3 delays
-- $4 errors
WITH changed AS (
    UPDATE "txwork"."outbox" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    due_at = CASE WHEN t.cancelled_at IS NOT NULL THEN t.due_at ELSE coalesce(pg_catalog.clock_timestamp() + s.delay * interval '1 microsecond', t.due_at) END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    locked_until = NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR pg_catalog.starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || pg_catalog.to_char(pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::pg_catalog.uuid[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::pg_catalog.text[]),
            pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY ($1::pg_catalog.uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN pg_catalog.min(changed.back) IS NULL THEN true ELSE (CASE WHEN pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.9 THEN pg_catalog.pg_notify('txwork.outbox', (extract(epoch FROM pg_catalog.min(changed.back)) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) ELSE ''::pg_catalog.void END) IS NOT NULL END
)
SELECT changed.id, changed.status, changed.cancelled FROM changed, told;
