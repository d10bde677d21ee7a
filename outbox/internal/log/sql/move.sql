-- Moves the lanes of a subscription, which its caller has locked, to what a tick saw: all of them to replay, those that
-- are behind it to cut, also by retention. Messages that a lane passes over, and had not settled, are counted and
-- recorded. Pages in hand are taken from their consumers, whose settles are lost. Of a batch that ends behind the tick,
-- a cut keeps what was settled. It reads at most so many messages of each lane; NULL: all.
--
-- A replay says how many messages were settled and are delivered again, among {{.MaxCounted}} of all lanes, and
-- with more that there may be others.
CREATE FUNCTION {{.Named "move"}}(subscription text, target {{.Named "seen"}}, why text, most bigint DEFAULT NULL)
RETURNS TABLE (lane integer, tick bigint, done bigint, taken boolean, lost bigint, again bigint, more boolean)
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    p {{.Named "position"}};
    b {{.Named "seen"}} := $2;
    late bigint[];
    oldest timestamptz;
    newest timestamptz;
    most bigint; -- messages among which those are counted that are delivered again
    stays boolean; -- the batch in hand ends behind the tick, and is not begun anew
BEGIN
    SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
    most := {{.MaxCounted}} / own.s.lanes + 1;
    FOR own.p IN
        SELECT p.* FROM {{.Named "position"}} AS p
        WHERE p.subscription = $1
        ORDER BY p.lane FOR UPDATE
    LOOP
        CONTINUE WHEN {{.Cuts "$3"}} AND (own.p.seen).n >= own.b.n;
        late := {{template "late" .}};
        SELECT count(*), min(m.created_at), max(m.created_at) INTO lost, own.oldest, own.newest
        FROM (
{{template "batch" .AtMost "$4"}}
              AND {{template "unsettled"}}) AS m
        WHERE (own.p.seen).n < own.b.n;
        INSERT INTO {{.Named "loss"}} (subscription, lane, began, ended, messages, oldest, newest, why)
        SELECT $1, own.p.lane, (own.p.seen).n, own.b.n, lost, own.oldest, own.newest, $3 WHERE lost > 0;

        again := 0;
        more := false;
        IF $3 = 'replay' THEN
            SELECT least(count(*) FILTER (WHERE {{template "settled" .}}), own.most), count(*) > own.most
            INTO again, more
            FROM (
                SELECT * FROM {{.Log}} AS m WHERE m.xid = ANY (own.b.open)
                UNION ALL
                (SELECT * FROM {{.Log}} AS m
                WHERE m.xid >= own.b.high AND m.xid < greatest((own.p.seen).high, (own.p.upto).high)
                ORDER BY m.xid, m.seq LIMIT own.most + 1)
                LIMIT own.most + 1) AS m;
        END IF;

        stays := {{.Cuts "$3"}} AND (own.p.upto).n > own.b.n IS TRUE;
        lane := own.p.lane;
        tick := own.b.n;
        done := CASE WHEN own.stays THEN own.p.done ELSE 0 END;
        taken := own.p.page IS NOT NULL;
        UPDATE {{.Named "position"}} AS t
        SET seen = own.b,
            upto = CASE WHEN own.stays THEN t.upto END,
            attempts = CASE WHEN own.stays THEN {{.TakenAttempts}} ELSE 0 END,
            done = CASE WHEN own.stays THEN t.done ELSE 0 END,
            ahead = CASE WHEN own.stays THEN t.ahead ELSE '{}' END,
            {{.TakesPage}}
        WHERE t.subscription = $1 AND t.lane = own.p.lane;
        RETURN NEXT;
    END LOOP;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "move"}}(text, {{.Named "seen"}}, text, bigint) FROM PUBLIC;
{{- define "settled"}}(m.xid < (p.seen).high AND m.xid <> ALL ((p.seen).open)
                OR (m.seq <= p.done OR m.seq = ANY (p.ahead))
                AND m.xid < (p.upto).high AND m.xid <> ALL ((p.upto).open))
              AND {{template "selected" .}}
{{- end}}
