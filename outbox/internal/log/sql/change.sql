-- Sets which messages a subscription has. NULL leaves what it had: the topics {*} are all topics, and the headers {}
-- are any headers. It holds from what each lane has settled, which is said of each: messages up to the number done, of
-- the batch behind the tick, were delivered as it was before.
-- A page in hand is taken from its consumer, and its messages are delivered again if the subscription still has them.
--
-- max_age and max_messages are its retention, see {{.Name}}_parked_retain: 0 is none. Who changes nothing else takes no
-- page.
--
-- Lanes can be changed while all are at one tick and no batch is in hand: then no key has messages in two of them.
CREATE FUNCTION {{.Named "change"}}(
    name text, topics text[] DEFAULT NULL, headers jsonb DEFAULT NULL, lanes integer DEFAULT NULL,
    max_age interval DEFAULT NULL, max_messages bigint DEFAULT NULL
)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    moves boolean := false;
    retains boolean := num_nonnulls($2, $3, $4) = 0 AND num_nonnulls($5, $6) > 0; -- no more than that
BEGIN
    {{.SeesAll}}
    {{.RefusesTopics "$2"}}
    {{.RefusesHeaders "$3"}}
    {{.RefusesLanesUnlessNull "$4"}}
    {{.RefusesRetention "$5" "$6"}}
    {{.RefusesSession "a change"}}
    {{.IdleBound "interval '1 minute'"}}
    {{.LocksSubscription}}
    PERFORM FROM {{.Named "position"}} AS p WHERE p.subscription = $1 ORDER BY p.lane FOR UPDATE;
    IF $4 <> own.s.lanes THEN
        {{.RefusesApart}}
        moves := true;
    END IF;
    UPDATE {{.Named "subscription"}} AS s
    SET headers = CASE WHEN $3 IS NULL THEN s.headers ELSE {{.Selected "$3"}} END, lanes = coalesce($4, s.lanes),
        max_age = nullif(coalesce($5, s.max_age), interval '0'),
        max_messages = nullif(coalesce($6, s.max_messages), 0),
        (topics, prefixes) = (
            SELECT CASE WHEN $2 IS NULL THEN s.topics ELSE w.topics END,
                CASE WHEN $2 IS NULL THEN s.prefixes ELSE w.prefixes END
            FROM (SELECT {{.Patterns "$2"}}) AS w (topics, prefixes))
    WHERE s.name = $1;
    IF own.retains THEN
        RETURN QUERY
        SELECT p.lane::integer, (p.seen).n, p.done, false, 0::bigint
        FROM {{.Named "position"}} AS p WHERE p.subscription = $1;
        RETURN;
    END IF;
    RETURN QUERY
    WITH old AS MATERIALIZED (
        SELECT p.lane, p.page IS NOT NULL AS taken FROM {{.Named "position"}} AS p WHERE p.subscription = $1
    )
    UPDATE {{.Named "position"}} AS t SET attempts = {{.TakenAttempts}}, {{.TakesPage}}
    FROM old AS o
    WHERE t.subscription = $1 AND t.lane = o.lane AND NOT own.moves
    RETURNING t.lane::integer, (t.seen).n, t.done, o.taken, 0::bigint;
    IF own.moves THEN
        INSERT INTO {{.Named "position"}} (subscription, lane, seen)
        SELECT $1, l, p.seen
        FROM {{.Named "position"}} AS p, generate_series(own.s.lanes, $4 - 1) AS l
        WHERE p.subscription = $1 AND p.lane = 0;
        DELETE FROM {{.Named "position"}} AS p WHERE p.subscription = $1 AND p.lane >= $4;
        RETURN QUERY
        SELECT p.lane::integer, (p.seen).n, 0::bigint, false, 0::bigint
        FROM {{.Named "position"}} AS p WHERE p.subscription = $1;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "change"}}(text, text[], jsonb, integer, interval, bigint) FROM PUBLIC;
