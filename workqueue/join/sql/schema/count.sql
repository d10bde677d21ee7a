-- Counts settled members in their joins and ends the joins that this completes or fails.
--
-- Two transactions that settle the last two members at once must not each miss the other's. The join's row
-- is locked before anything is read of it: the second waits there until the first has committed, and its
-- next statement, whose snapshot is taken afterwards under READ COMMITTED, sees the first one's count.
-- (Under REPEATABLE READ it fails with 40001 instead, and nothing is lost either.)
--
-- All joins of a statement are locked in the order of their ids. Deadlocks remain possible between
-- transactions that settle with several statements, and along the edges of a graph; the core runs its own
-- transactions again.
--
-- The members are reached from the notes, one index look-up each: a condition on the array of joins would be
-- a filter that is searched for every row.
--
-- A member counts once in a join: outcome and late are set where they are NULL. A redrive takes the failure
-- back where it was counted last.
CREATE FUNCTION {{.Function "count"}}(notes text[]) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    touched uuid[];
BEGIN
    SELECT array_agg(l.id) INTO touched
    FROM (
        SELECT j.id
        FROM {{.Join}} AS j
        WHERE j.id = ANY (ARRAY(
            SELECT m.join_id
            FROM {{.Member}} AS m
            WHERE m.member_id = ANY (ARRAY(SELECT left(n.note, 36)::uuid FROM unnest($1) AS n (note)))))
        ORDER BY j.id
        FOR NO KEY UPDATE
    ) AS l;
    IF touched IS NULL THEN
        RETURN 0;
    END IF;

    WITH changed AS (
        UPDATE {{.Member}} AS m
        SET outcome = CASE WHEN j.status = 0 THEN nullif(n.outcome, 0) ELSE m.outcome END,
            late = CASE WHEN j.status = 0 THEN m.late ELSE nullif(n.outcome, 0) END
        FROM (SELECT left(u.note, 36)::uuid, right(u.note, 1)::smallint FROM unnest($1) AS u (note)) AS n (id, outcome),
             {{.Join}} AS j
        WHERE m.member_id = n.id
          AND j.id = m.join_id
          AND CASE WHEN n.outcome > 0
              THEN CASE WHEN j.status = 0 THEN m.outcome ELSE m.late END IS NULL
              ELSE CASE WHEN j.status = 0 THEN m.outcome ELSE m.late END = 2
          END
        RETURNING m.join_id, n.outcome, j.status = 0 AS counts
    ), sums AS (
        SELECT c.join_id,
               count(*) FILTER (WHERE c.counts AND c.outcome = 1) AS succeeded,
               count(*) FILTER (WHERE c.counts AND c.outcome = 2) - count(*) FILTER (WHERE c.counts AND c.outcome = 0) AS failed,
               count(*) FILTER (WHERE NOT c.counts AND c.outcome > 0) - count(*) FILTER (WHERE NOT c.counts AND c.outcome = 0) AS late
        FROM changed AS c
        GROUP BY c.join_id
    )
    -- More members than are expected were written by hand. To refuse their count would refuse their settle.
    UPDATE {{.Join}} AS j
    SET succeeded = j.succeeded + s.succeeded,
        failed = j.failed + s.failed,
        late = j.late + s.late,
        expected = greatest(j.expected, j.succeeded + s.succeeded + j.failed + s.failed, j.late + s.late)
    FROM sums AS s
    WHERE j.id = s.join_id;

    RETURN {{.Function "end"}}(touched, NULL, NULL);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "count"}}(text[]) FROM PUBLIC;
