-- What {{.Name}}_fetch returns: rows, and one end, whose seq is NULL. A later version appends columns at the end.
CREATE TYPE {{.Named "fetched"}} AS (
    entry text,
    lane integer,
    attempts integer,
    locked_until timestamptz,
    seq bigint,
    id uuid,
    created_at timestamptz,
    topic text,
    key text,
    headers jsonb,
    payload bytea,
    upto bigint,
    more boolean,
    held text,
    unavailable_since timestamptz,
    wait_seconds double precision
);

-- Claims a lane of the subscription that has a batch, or goes on with the lane that the token holds, and returns the
-- next page of its batch: rows in the order of seq, and then one end. Commit before you handle the rows. Then settle up
-- to the end's upto, which may be behind the last row: messages whose key is blocked are withheld, and settle parks
-- them.
--
-- A page has at most n messages, more if some share the last number. If bytes is given, it ends before the payloads
-- exceed that, but has at least one message.
--
-- While the destination is unavailable, nothing is handed out until the rest is over, and then one message to one
-- consumer. unavailable_since says since when, and wait_seconds when to ask again: 0 while a message is at work.
--
-- As long as the page is in hand, the same call returns the same page. A page without messages is settled by the fetch
-- itself. more says that there may be another page at once, held why not: all lanes are busy, it is paused, or its
-- destination is unavailable.
--
-- The position is locked before it and its subscription are read. Everything that follows is of that position, in one
-- statement.
CREATE FUNCTION {{.Named "fetch"}}(
    subscription text, owner_token uuid, lease interval, n integer, bytes bigint DEFAULT NULL
) RETURNS SETOF {{.Named "fetched"}}
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    p {{.Named "position"}};
    r {{.Named "position"}}; -- the lane that has a rest
    probes boolean;
    b {{.Named "seen"}};
    late bigint[];
    held boolean; -- by this token, before the call
    again boolean; -- the page is in hand
    most bigint;
    parked boolean;
    newest bigint;
    result {{.Named "fetched"}};
BEGIN
    {{.SeesAll}}
    {{.RefusesNoToken "$2"}}
    {{.RefusesLease "$3"}}
    {{.RefusesCount "$4"}}
    {{.RefusesBytes "$5"}}
    {{.RefusesSession "a fetch"}}
    {{.RefusesRestored}}
    {{.Durable}}
    {{.IdleBound "$3"}}
    SELECT p.* INTO own.p FROM {{.Named "position"}} AS p
    WHERE p.subscription = $1 AND p.owner_token = $2
    FOR UPDATE;
    held := FOUND;
    SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
    {{.RefusesUnknown}}
    {{.RefusesUsedToken "own.held AND own.p.locked_until IS NULL"}}
    result.entry := 'end';
    result.more := false;
    SELECT t.n INTO own.newest FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1;

    SELECT q.* INTO own.r FROM {{.Named "position"}} AS q
    WHERE q.subscription = $1 AND (q.rest).since IS NOT NULL
    LIMIT 1;
    result.unavailable_since := (own.r.rest).since;
    result.wait_seconds := CASE WHEN {{.IsOver "own.r.rest"}} THEN 0
        ELSE extract(epoch FROM (own.r.rest).until - clock_timestamp()) END;
    IF own.p.page IS NULL THEN -- a page in hand is settled
        result.held := CASE
            WHEN own.s.paused THEN 'paused'
            WHEN own.result.wait_seconds > 0
                OR own.r.locked_until >= clock_timestamp() AND own.r.owner_token IS DISTINCT FROM $2
                OR own.held AND own.p.lane <> own.r.lane THEN 'unavailable'
            END;
    END IF;
    IF own.result.held IS NOT NULL THEN
        UPDATE {{.Named "position"}} AS t
        SET locked_until = NULL, owner_token = NULL, attempts = {{.TakenAttempts}}
        WHERE own.held AND t.subscription = $1 AND t.lane = own.p.lane;
        RETURN NEXT own.result;
        RETURN;
    END IF;
    IF NOT own.held THEN
        SELECT p.* INTO own.p FROM {{.Named "position"}} AS p
        WHERE p.subscription = $1
          AND (p.locked_until IS NULL OR p.locked_until < clock_timestamp())
          AND ((p.upto).n IS NOT NULL OR (p.seen).n < own.newest)
          AND CASE WHEN own.r.lane IS NULL THEN (p.rest).since IS NULL
            ELSE p.lane = own.r.lane AND {{.IsOver "p.rest"}} END
        ORDER BY (p.seen).n, p.lane
        LIMIT 1
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            IF own.r.lane IS NOT NULL THEN
                result.held := 'unavailable';
            ELSIF EXISTS (SELECT FROM {{.Named "position"}} AS p
                WHERE p.subscription = $1 AND ((p.upto).n IS NOT NULL OR (p.seen).n < own.newest)) THEN
                result.held := 'busy';
            END IF;
            RETURN NEXT own.result;
            RETURN;
        END IF;
        -- Once more, under the lock: {{.Name}}_change locks all positions.
        SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
        -- The page of another token is not this one's: what is withheld is decided anew.
        p.page := NULL;
        p.whole := false;
        p.withheld := '{}';
        p.attempts := own.p.attempts + 1;
    END IF;

    -- The batch in hand, or else up to the last tick within {{.BatchSize}} numbers, or else to the next one.
    b := own.p.upto;
    IF own.b.n IS NULL THEN
        SELECT (t.seen).* INTO own.b
        FROM (
            SELECT t.n, t.seen FROM {{.Named "tick"}} AS t
            WHERE t.n > (own.p.seen).n
            ORDER BY t.n LIMIT {{.MaxTicks}}) AS t
        WHERE (t.seen).seq <= (own.p.seen).seq + {{.BatchSize}}
        ORDER BY t.n DESC LIMIT 1;
        IF own.b.n IS NULL THEN
            SELECT (t.seen).* INTO own.b FROM {{.Named "tick"}} AS t WHERE t.n > (own.p.seen).n ORDER BY t.n LIMIT 1;
        END IF;
        IF own.b.n IS NULL THEN
            RETURN NEXT own.result; -- the ticks were deleted meanwhile
            RETURN;
        END IF;
    END IF;
    late := {{template "late" .}};
    again := own.p.page IS NOT NULL;
    probes := own.r.lane = own.p.lane IS TRUE;
    most := CASE WHEN own.again THEN 9223372036854775807 ELSE $4 END;
    parked := EXISTS (SELECT FROM {{.Parked}} AS q
        WHERE q.subscription = $1 AND q.concurrency_key IS NOT NULL AND {{.Blocks "q"}});

    RETURN QUERY
    WITH page AS MATERIALIZED (
        SELECT m.*, CASE
            WHEN own.again THEN m.seq = ANY (own.p.withheld)
            WHEN NOT own.parked OR m.key IS NULL THEN false
            ELSE EXISTS (SELECT FROM {{.Parked}} AS q
                WHERE q.subscription = $1
                  AND q.concurrency_key = {{.ParkedKey "m.key"}}
                  AND {{.Blocks "q"}})
            END AS is_withheld
        FROM (
            SELECT m.seq, m.id, m.created_at, m.topic, m.key, m.headers, m.payload
            FROM (
                SELECT m.* FROM {{.Log}} AS m
                WHERE {{template "news" .}}
                  AND {{template "next" .}}
                UNION ALL
                SELECT m.* FROM unnest(own.late) AS x
                CROSS JOIN LATERAL ( -- so many, however many the transaction has
                    SELECT * FROM {{.Log}} AS m
                    WHERE m.xid = x
                      AND {{template "next" .}}
                    ORDER BY m.seq
                    FETCH FIRST (own.most) ROWS WITH TIES) AS m) AS m
            ORDER BY m.seq
            FETCH FIRST (own.most) ROWS WITH TIES) AS m
    ), read AS (
        SELECT count(*) AS rows, max(g.seq) AS furthest, sum(octet_length(g.payload)) AS bytes FROM page AS g
    ), told AS (
        SELECT o.rows, o.furthest, CASE
            -- A probe ends with the first message that is handed out.
            WHEN own.probes THEN coalesce((SELECT min(g.seq) FROM page AS g WHERE NOT g.is_withheld), o.furthest)
            WHEN own.again OR (o.bytes > $5) IS NOT TRUE THEN o.furthest
            ELSE (SELECT coalesce(max(g.seq) FILTER (WHERE g.bytes <= $5), min(g.seq))
                FROM (SELECT g.seq, sum(octet_length(g.payload)) OVER (ORDER BY g.seq) AS bytes FROM page AS g) AS g)
            END AS last,
            CASE WHEN own.again THEN own.p.whole ELSE o.rows < $4 END AS whole
        FROM read AS o
    ), moved AS (
        UPDATE {{.Named "position"}} AS t
        SET seen = CASE WHEN o.rows = 0 AND o.whole THEN own.b ELSE t.seen END,
            upto = CASE WHEN o.rows = 0 AND o.whole THEN NULL ELSE own.b END,
            -- what was in hand is gone only if somebody has deleted it: the rest of the batch is still there
            done = CASE WHEN o.rows > 0 THEN t.done WHEN o.whole THEN 0 ELSE own.p.page END,
            page = o.last,
            whole = o.rows > 0 AND o.whole AND o.last = o.furthest,
            withheld = CASE WHEN own.parked OR own.again
                THEN ARRAY(SELECT g.seq FROM page AS g WHERE g.is_withheld AND g.seq <= o.last ORDER BY g.seq)
                ELSE '{}' END,
            ahead = CASE WHEN o.rows > 0 OR NOT o.whole THEN t.ahead ELSE '{}' END,
            rest = CASE WHEN o.rows > 0 OR NOT o.whole THEN t.rest END, -- a lane without messages probes nothing
            attempts = CASE WHEN o.rows > 0 THEN own.p.attempts ELSE 0 END,
            owner_token = CASE WHEN o.rows > 0 THEN $2 END,
            locked_until = CASE WHEN o.rows > 0 THEN clock_timestamp() + $3 END
        FROM told AS o
        WHERE t.subscription = $1 AND t.lane = own.p.lane
        RETURNING t.lane::integer AS lane, t.attempts, t.locked_until, t.page,
            o.rows > 0 OR NOT o.whole OR own.b.n < own.newest OR EXISTS (
                SELECT FROM {{.Named "position"}} AS q
                WHERE q.subscription = $1
                  AND q.lane <> own.p.lane
                  AND (q.locked_until IS NULL OR q.locked_until < clock_timestamp())
                  AND ((q.upto).n IS NOT NULL OR (q.seen).n < own.newest)) AS more
    )
    -- The page is sorted, and nothing here changes the order.
    SELECT 'row', own.p.lane::integer, own.p.attempts, NULL::timestamptz, g.seq, g.id, g.created_at, g.topic::text,
        g.key::text, g.headers, g.payload::bytea, NULL::bigint, NULL::boolean, NULL, NULL::timestamptz, NULL::float8
    FROM page AS g
    WHERE NOT g.is_withheld AND g.seq <= (SELECT m.page FROM moved AS m)
    UNION ALL
    SELECT 'end', m.lane, m.attempts, m.locked_until, NULL, NULL, NULL, NULL, NULL, NULL, NULL, m.page, m.more, NULL,
        CASE WHEN own.probes THEN own.result.unavailable_since END, NULL
    FROM moved AS m;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "fetch"}}(text, uuid, interval, integer, bigint) FROM PUBLIC;
{{- define "next"}}m.seq > own.p.done
                  AND m.seq <> ALL (own.p.ahead)
                  AND (NOT own.again OR m.seq <= own.p.page)
                  AND {{template "wanted" .}}
{{- end}}
