-- InProgress -> Done for the rows of runs that are done, as far as they are a prefix of their run, and -> Ready for the
-- others, waiting, in their order. One row is left as it is: the first of a run that is not done, if all before it are
-- and what says 1. The statement for its outcome follows in the same transaction. So after the commit the key has no
-- row in progress, and at most that one can be claimed.
--
-- Of each row, run and place say which it is in which run, and what says 0 for done, 1 for another outcome and 2 for
-- going back. A row that the claim holds no longer ends the prefix, too: what is behind it goes back although it is
-- done. So all rows are locked first. Callers sort the ids, as for all settles. What goes back keeps its due time and
-- gives its attempt back, unless it was cancelled: then it has ended. A trigger notes that it waits. The join is
-- written for the planner as that of ack.sql. What is locked is the claim's, so the updates need none.
WITH told AS MATERIALIZED (
    SELECT s.id, s.run, s.what, s.place
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@runs::int[]), unnest(@places::int[]), unnest(@whats::int[]),
            generate_subscripts('{}'::int[], 1)) AS s (id, run, place, what)
), held AS MATERIALIZED (
    SELECT r.id
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), generate_subscripts('{}'::int[], 1)) AS s (id, token)
    JOIN {{.Table}} AS r ON r.id = s.id
    WHERE r.id = ANY (@ids::uuid[]) AND r.owner_token = s.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r
), placed AS MATERIALIZED (
    SELECT p.id, p.held, p.done AND p.so_far AS done, p.held AND p.what = 1 AND p.so_far AS stays
    FROM (
        SELECT q.*, coalesce(bool_and(q.done) OVER (PARTITION BY q.run ORDER BY q.place
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS so_far
        FROM (
            SELECT s.*, s.held AND s.what = 0 AS done
            FROM (SELECT u.*, u.id IN (SELECT h.id FROM held AS h) AS held FROM told AS u) AS s) AS q) AS p
), acked AS (
    {{- if .DeleteDone}}
    DELETE FROM {{.Table}} AS t
    {{- else}}
    UPDATE {{.Table}} AS t
    {{template "acked" .}}
    {{- end}}
    WHERE t.id = ANY (ARRAY(SELECT s.id FROM placed AS s WHERE s.done))
    RETURNING t.id
), back AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail" retry "t.cancelled_at IS NOT NULL" ""}}
        waiting = t.cancelled_at IS NULL,
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
    WHERE t.id = ANY (ARRAY(SELECT s.id FROM placed AS s WHERE s.held AND NOT s.done AND NOT s.stays))
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled
)
SELECT acked.id, 2::smallint AS status, false AS cancelled, false AS back FROM acked
UNION ALL
SELECT back.id, back.status, back.cancelled, true FROM back
