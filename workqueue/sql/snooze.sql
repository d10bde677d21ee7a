-- InProgress -> Ready without counting the attempt. A NULL delay leaves due_at alone: a worker that shuts down puts its
-- unstarted rows back where they were, and announces them to the other workers, whose cursors have passed that place.
-- A row that is put back for the same cause again and again keeps the time of the first: due_at no longer tells how
-- long it has waited. Same guard and lock order as ack.sql.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail" retry "t.cancelled_at IS NOT NULL"
        "coalesce(clock_timestamp() + s.delay * interval '1 microsecond', t.due_at)"}}
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END,
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), unnest(@delays::bigint[]), unnest(@errors::text[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, token, delay, error)
    WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled,
        CASE WHEN t.status = 0 AND s.delay IS NULL THEN t.due_at END AS back
), told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE {{.AnnounceFrom "min(changed.back)"}} IS NOT NULL END
)
SELECT changed.id, changed.status, changed.cancelled FROM changed, told
