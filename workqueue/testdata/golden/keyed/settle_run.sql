-- $1 ids
-- $2 runs
-- $3 places
-- $4 whats
-- $5 tokens
WITH told AS MATERIALIZED (
    SELECT s.id, s.run, s.what, s.place
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($2::int[]), pg_catalog.unnest($3::int[]), pg_catalog.unnest($4::int[]),
            pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, run, place, what)
), held AS MATERIALIZED (
    SELECT r.id
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.uuid[]), pg_catalog.unnest($5::pg_catalog.uuid[]), pg_catalog.generate_subscripts('{}'::int[], 1)) AS s (id, token)
    JOIN "txwork"."keyed" AS r ON r.id = s.id
    WHERE r.id = ANY ($1::pg_catalog.uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r
), placed AS MATERIALIZED (
    SELECT p.id, p.held, p.done AND p.so_far AS done, p.held AND p.what = 1 AND p.so_far AS stays
    FROM (
        SELECT q.*, coalesce(pg_catalog.bool_and(q.done) OVER (PARTITION BY q.run ORDER BY q.place
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS so_far
        FROM (
            SELECT s.*, s.held AND s.what = 0 AS done
            FROM (SELECT u.*, u.id IN (SELECT h.id FROM held AS h) AS held FROM told AS u) AS s) AS q) AS p
), acked AS (
    UPDATE "txwork"."keyed" AS t
    SET status = 2,
    completed_at = pg_catalog.clock_timestamp(),
    locked_until = NULL
    WHERE t.id = ANY (ARRAY(SELECT s.id FROM placed AS s WHERE s.done))
    RETURNING t.id
), back AS (
    UPDATE "txwork"."keyed" AS t
    SET status = CASE WHEN t.cancelled_at IS NOT NULL THEN 3 ELSE 0 END,
    completed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    failed_at = CASE WHEN t.cancelled_at IS NOT NULL THEN pg_catalog.clock_timestamp() END,
    locked_until = NULL,
        waiting = t.cancelled_at IS NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    WHERE t.id = ANY (ARRAY(SELECT s.id FROM placed AS s WHERE s.held AND NOT s.done AND NOT s.stays))
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT acked.id, 2::smallint AS status, false AS cancelled, false AS back FROM acked
UNION ALL
SELECT back.id, back.status, back.cancelled, true FROM back;
