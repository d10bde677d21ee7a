-- Looks for up to want starts that the rate of a queue allows now. Each is the beginning of a span of 1/rate, in
-- microseconds since 1970. again says in how many seconds there will be one more. Without a rate, both are NULL.
--
-- The spans of all starts lie one behind the other, and begin no later than now and no earlier than a burst less one
-- before it: the generic cell rate algorithm (ITU-T I.371), which admits what a token bucket does. In any time W, no
-- more than rate * W + burst jobs start. Spans are rounded up to whole microseconds.
--
-- A span that is taken is a row. Until that is visible, advisory locks stand for it, so claims never wait for each
-- other, and a claim whose transaction stays open holds back only what it has taken. Claims do not begin their spans at
-- the same times, so the locks are on cells of the length of a span, which lie fixed in time: a span locks the one or
-- two that it touches, and spans that overlap touch the same cell. So do neighbours, unless they begin where cells do:
-- behind what others have locked, spans begin there. The rows are looked at once more when the cells are
-- locked, by a separate statement, so its snapshot (READ COMMITTED) includes those of all claims that had them before.
-- Rows are deleted a while after they have ceased to matter. A claim that was suspended for as long takes none of the
-- spans that it had found.
--
-- A start that is given back, or whose claim was rolled back, leaves a gap behind the newest start. Gaps are taken when
-- too few are free before it, among the newest starts only, so that a claim reads a bounded number of rows.
CREATE FUNCTION {{.Function "spans"}}(
    queue text, want integer, locking boolean, OUT starts bigint[], OUT again double precision
)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
DECLARE
    rule {{.Queue}}%ROWTYPE;
    moment bigint := {{.Moment}};
    length bigint;
    depth bigint;
    next bigint;
    place bigint;
    ahead integer;
    gap record;
BEGIN
    SELECT q.* INTO rule FROM {{.Queue}} AS q WHERE q.name = $1;
    IF rule.rate IS NULL THEN
        RETURN;
    END IF;
    length := {{.SpanLength "rule"}};
    depth := {{.SpanDepth "rule"}};
    next := coalesce((
        SELECT s.at + length
        FROM {{.Start}} AS s
        WHERE s.queue = $1 AND s.at > moment - depth - length AND s.at < moment + length
        ORDER BY s.at DESC
        LIMIT 1), moment - depth);
    starts := '{}';
    place := next;
    WHILE place <= moment AND cardinality(starts) < $2 LOOP
        IF {{.TakesSpan "place"}} THEN
            starts := starts || place;
            place := place + length;
        ELSE
            place := (place / length + 1) * length;
        END IF;
    END LOOP;
    ahead := cardinality(starts);
    IF ahead < $2 THEN
        FOR gap IN
            SELECT u.at - length AS last, u.previous + length AS first
            FROM (
                SELECT n.at, coalesce(lead(n.at) OVER (ORDER BY n.at DESC),
                    CASE WHEN count(*) OVER () < {{.MaxGaps}} THEN moment - depth - length END) AS previous
                FROM (
                    SELECT s.at
                    FROM {{.Start}} AS s
                    WHERE s.queue = $1 AND s.at > moment - depth - length AND s.at < next -- not among those ahead
                    ORDER BY s.at DESC
                    LIMIT {{.MaxGaps}}) AS n) AS u
            WHERE u.at - u.previous >= 2 * length
            ORDER BY u.at DESC
        LOOP
            place := gap.last;
            WHILE place >= gap.first AND cardinality(starts) < $2 LOOP
                IF {{.TakesSpan "place"}} THEN
                    starts := starts || place;
                END IF;
                place := place - length;
            END LOOP;
            EXIT WHEN cardinality(starts) >= $2;
        END LOOP;
    END IF;
    again := greatest(next + ahead * length - moment, 1000) / 1000000.0;
    IF NOT $3 THEN
        RETURN;
    END IF;
    starts := ARRAY(
        SELECT CASE WHEN u.at + depth + {{.SpanGrace}} > extract(epoch FROM clock_timestamp()) * 1000000
            AND NOT EXISTS (
                SELECT FROM {{.Start}} AS s WHERE s.queue = $1 AND s.at > u.at - length AND s.at < u.at + length)
            THEN u.at END
        FROM unnest(starts) AS u (at));
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "spans"}}(text, integer, boolean) FROM PUBLIC;

-- Locks up to want starts that the rate of a queue allows, and returns them. NULL is one that was taken before it was
-- locked. If the queue has no rate, the result is NULL. See Spec.Admission of package workqueue.
CREATE FUNCTION {{.Function "starts"}}(queue text, want integer) RETURNS bigint[]
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
BEGIN
    {{.SeesRules}}
    RETURN (SELECT s.starts FROM {{.Function "spans"}}($1, $2, true) AS s);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "starts"}}(text, integer) FROM PUBLIC;
