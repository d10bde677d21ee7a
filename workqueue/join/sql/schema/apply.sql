-- Applies notes in batches, for about a tenth of a second. The continuations that this ends may be members of other
-- joins, and their notes come next. So a failure propagates down a graph level by level, and the next fold continues
-- where this one stops.
--
-- It reads each member's current state, so duplicate or reordered notes do no harm. If a member's row is gone, the note
-- says how it ended; a row that succeeded is never redriven, so its outcome 1 is final.
--
-- The members' rows record the outcomes, the join's row has the sums. While another session holds the join, to extend
-- or to cancel it, its members are marked all the same, and the join is counted anew in half a second.
CREATE FUNCTION {{.Function "apply"}}(max_notes integer, since timestamptz, careful boolean)
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
DECLARE
    until constant timestamptz := clock_timestamp() + interval '100 milliseconds';
    upper timestamptz := clock_timestamp();
    taken integer;
    latest timestamptz;
    members uuid[];
    gone smallint[];
    asked uuid[];
    places tid[];
    known smallint[];
    joins uuid[];
    pairs bigint;
    held uuid[];
    missed uuid[];
BEGIN
    {{.SeesAll}}
    {{.Bounded "$1" "max_notes"}}
    folded := 0;
    released := 0;
    LOOP
        WITH note AS (
            DELETE FROM {{.Note}} AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT r.ctid
                FROM {{.Note}} AS r
                WHERE r.at >= since AND r.at <= upper
                ORDER BY r.at
                LIMIT least(max_notes - folded, {{.MaxPiece}})
                FOR UPDATE SKIP LOCKED))
            RETURNING d.at, d.member_id, d.gone, d.join_id
        )
        SELECT count(*), max(n.at), array_agg(n.member_id), array_agg(n.gone),
               coalesce(array_agg(n.join_id) FILTER (WHERE n.join_id IS NOT NULL), '{}')
        INTO taken, latest, members, gone, asked
        FROM note AS n;
        EXIT WHEN taken = 0;
        folded := folded + taken;
        upto := greatest(upto, latest);

        SELECT coalesce(array_agg(l.place), '{}'), array_agg(l.gone), coalesce(array_agg(DISTINCT l.join_id), '{}'),
               (SELECT count(*) FROM {{.Member}} AS m WHERE m.member_id = ANY (members))
        INTO places, known, joins, pairs
        FROM (
            SELECT m.ctid AS place, m.join_id, n.gone
            FROM (SELECT u.id, min(u.gone) AS gone FROM unnest(members, gone) AS u (id, gone) GROUP BY u.id) AS n
            JOIN {{.Member}} AS m ON m.member_id = n.id
            FOR NO KEY UPDATE OF m SKIP LOCKED
        ) AS l;
        IF cardinality(places) < pairs THEN
            INSERT INTO {{.Note}} (at, member_id, gone)
            SELECT {{.Soon}}, m.member_id, min(u.gone)
            FROM unnest(members, gone) AS u (id, gone)
            JOIN {{.Member}} AS m ON m.member_id = u.id
            WHERE m.ctid NOT IN (SELECT p.place FROM unnest(places) AS p (place))
            GROUP BY m.member_id;
        END IF;

        joins := joins || asked;
        missed := '{}';
        held := ARRAY(SELECT j.id FROM {{.Join}} AS j WHERE j.id = ANY (joins) FOR NO KEY UPDATE SKIP LOCKED);
        IF cardinality(held) < cardinality(joins) THEN
            missed := ARRAY(
                SELECT j.id FROM {{.Join}} AS j
                WHERE j.id = ANY (joins) AND j.id NOT IN (SELECT h.id FROM unnest(held) AS h (id)));
            INSERT INTO {{.Note}} (at, join_id) SELECT {{.Soon}}, u.id FROM unnest(missed) AS u (id);
        END IF;

        WITH seen AS MATERIALIZED (
            SELECT p.place, m.join_id, m.outcome, m.late, j.status = 0 AS pending,
                   CASE WHEN t.id IS NULL
                        THEN least(p.gone, CASE WHEN j.status = 0 THEN m.outcome ELSE nullif(m.late, 0) END)
                        WHEN t.completed_at IS NULL THEN 0
                        WHEN t.status = 2 THEN 1
                        ELSE 2
                   END AS result
            FROM unnest(places, known) AS p (place, gone)
            JOIN {{.Member}} AS m ON m.ctid = p.place
            JOIN {{.Join}} AS j ON j.id = m.join_id
            LEFT JOIN {{.Table}} AS t ON t.id = m.member_id
        ), found AS MATERIALIZED (
            SELECT s.place, s.join_id, s.outcome AS outcome_before, s.late AS late_before,
                   CASE WHEN s.pending AND s.result IS NOT NULL THEN nullif(s.result, 0) ELSE s.outcome END AS outcome,
                   CASE WHEN s.pending OR s.result IS NULL THEN s.late
                        WHEN s.result = 0 AND s.outcome IS NULL THEN NULL
                        WHEN s.result = s.outcome AND s.late IS NULL THEN NULL -- it is counted already
                        ELSE s.result
                   END AS late
            FROM seen AS s
        ), marked AS (
            UPDATE {{.Member}} AS m
            SET outcome = n.outcome, late = n.late
            FROM found AS n
            WHERE m.ctid = n.place AND (n.outcome, n.late) IS DISTINCT FROM (n.outcome_before, n.late_before)
        ), sums AS (
            SELECT n.join_id,
                   count(*) FILTER (WHERE n.outcome = 1) - count(*) FILTER (WHERE n.outcome_before = 1) AS succeeded,
                   count(*) FILTER (WHERE n.outcome = 2) - count(*) FILTER (WHERE n.outcome_before = 2) AS failed,
                   count(*) FILTER (WHERE n.late > 0) - count(*) FILTER (WHERE n.late_before > 0) AS late
            FROM found AS n
            WHERE n.join_id NOT IN (SELECT u.id FROM unnest(missed) AS u (id))
            GROUP BY n.join_id
        )
        -- If there are more members than expected, or the sums do not match, someone has edited the tables by hand. A
        -- recount repairs that.
        UPDATE {{.Join}} AS j
        SET succeeded = greatest(j.succeeded + s.succeeded, 0),
            failed = greatest(j.failed + s.failed, 0),
            late = greatest(j.late + s.late, 0),
            expected = greatest(j.expected, j.succeeded + s.succeeded + j.failed + s.failed, j.late + s.late)
        FROM sums AS s
        WHERE j.id = s.join_id AND (s.succeeded <> 0 OR s.failed <> 0 OR s.late <> 0);

        IF asked <> '{}' THEN
            PERFORM {{.Function "recount"}}(ARRAY(
                SELECT u.id FROM unnest(asked) AS u (id) INTERSECT SELECT h.id FROM unnest(held) AS h (id)));
        END IF;
        released := released + {{.Function "finish"}}(held, careful);

        IF folded >= max_notes OR clock_timestamp() > until THEN
            again := 0;
            RETURN NEXT;
            RETURN;
        END IF;
        since := latest;
        upper := clock_timestamp();
    END LOOP;
    again := (
        SELECT extract(epoch FROM n.at - clock_timestamp()) FROM {{.Note}} AS n
        WHERE n.at > upper
        ORDER BY n.at
        LIMIT 1);
    RETURN NEXT;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "apply"}}(integer, timestamptz, boolean) FROM PUBLIC;
