-- $1 actor
-- $2 ids
WITH changed AS (
    UPDATE "billing"."invoices" AS t
    SET status = 0,
        waiting = false,
        attempts = 0,
        due_at = clock_timestamp(),
        completed_at = NULL,
        failed_at = NULL,
        cancelled_at = NULL,
        owner_token = NULL,
        headers = coalesce(t.headers, '{}'::jsonb) || jsonb_build_object(
            'txwork-redriven-by', coalesce($1::text, session_user::text),
            'txwork-redriven-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE t.id = ANY ($2::uuid[]) AND t.status = 3
    RETURNING t.id
), told AS (
    SELECT array_agg(changed.id) AS ids
    FROM changed
    HAVING CASE WHEN count(*) > 0 THEN pg_catalog.pg_notify('billing.invoices', (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint::pg_catalog.text) IS NOT NULL END
)
SELECT unnest(told.ids) AS id FROM told;
