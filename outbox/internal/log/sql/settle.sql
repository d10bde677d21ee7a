-- The messages of the page in hand are settled up to a number, and those that failed are parked: as rows of
-- {{.Name}}_parked, which the core runs again, in the order of their keys. failed is an array of objects with seq and,
-- optionally, error, delay in seconds, and outcome: retry (an attempt has failed), snooze (it does not count) or fail
-- (nobody is to attempt it again: the row has the error in its header {{.Permanent}}, and who claims it settles it as
-- failed, unless it was redriven). The rest of the key of a failed message must not be handled: what the page has of it
-- is parked as well. Messages that the fetch withheld are parked when they are settled.
--
-- ahead are numbers of the page behind upto that are settled, too, although not all before them are. They are handed
-- out no more, also if the lane is given back. Those of them that failed are parked.
--
-- The message of a probe that is settled ends the outage, whether or not it failed: its destination has answered. With
-- the outcome snooze it says nothing, and the first rest begins anew.
--
-- Returns settled, ended (the batch has ended, and the lane is free), repeated (an earlier call did it), or lost: then
-- nothing was changed, and another consumer has the lane, or the subscription was changed, moved or removed.
--
-- The position and what is parked are one transaction. The position is locked first, so that nobody else parks messages
-- of its keys.
CREATE FUNCTION {{.Named "settle"}}(
    subscription text, owner_token uuid, upto bigint, failed jsonb DEFAULT '[]', lease interval DEFAULT NULL,
    ahead bigint[] DEFAULT '{}'
) RETURNS text
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_generic_plan
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    s {{.Named "subscription"}};
    p {{.Named "position"}};
    b {{.Named "seen"}};
    late bigint[];
    most bigint; -- all up to here
    ahead bigint[] := '{}'; -- and these behind it
    seqs bigint[];
    named integer; -- failures of the page
    withheld bigint[]; -- behind upto
    is_end boolean;
BEGIN
    {{.SeesAll}}
    {{.RefusesNoToken "$2"}}
    {{.RefusesNoEnd "$3"}}
    {{.RefusesFailures "$4"}}
    {{.RefusesLeaseUnlessNull "$5"}}
    {{.RefusesAhead "$6"}}
    {{.RefusesSession "a settle"}}
    {{.Durable}}
    {{.IdleBound "interval '1 minute'"}}
    SELECT p.* INTO own.p FROM {{.Named "position"}} AS p
    WHERE p.subscription = $1 AND p.owner_token = $2
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    ELSIF own.p.locked_until IS NULL OR $3 <= own.p.done AND $6 <@ own.p.ahead THEN
        RETURN 'repeated';
    END IF;
    most := greatest($3, own.p.done);
    {{.RefusesBehind "own.most <= own.p.page"}}
    IF own.p.ahead || $6 <> '{}' THEN
        ahead := ARRAY(
            SELECT a FROM unnest(own.p.ahead) AS a WHERE a > own.most
            UNION
            SELECT a FROM unnest($6) AS a WHERE a > own.most AND a <= own.p.page AND a <> ALL (own.p.withheld));
    END IF;

    SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s WHERE s.name = $1;
    b := own.p.upto;
    late := {{template "late" .}};
    SELECT coalesce(array_agg((e ->> 'seq')::bigint), '{}') INTO own.seqs FROM jsonb_array_elements($4) AS e;
    IF own.seqs <> '{}' OR own.p.withheld[1] <= own.most THEN
        WITH page AS MATERIALIZED (
{{template "batch" .}}
              AND m.seq > own.p.done
              AND m.seq <> ALL (own.p.ahead) -- they have ended
              AND m.seq <= own.p.page
        ), failing AS (
            SELECT g.key::text AS key, min(g.seq) AS first
            FROM page AS g
            WHERE g.seq = ANY (own.seqs) AND g.key IS NOT NULL
            GROUP BY 1
        ), listed AS (
            SELECT g.*, e.value AS failure
            FROM page AS g
            LEFT JOIN failing AS f ON f.key = g.key
            LEFT JOIN LATERAL (
                SELECT e.value FROM jsonb_array_elements($4) AS e (value)
                WHERE g.seq = ANY (own.seqs) AND g.seq = (e.value ->> 'seq')::bigint) AS e ON true
            WHERE g.seq = ANY (own.seqs) OR g.seq = ANY (own.p.withheld) OR g.seq > f.first
        ), parked AS (
            INSERT INTO {{.Parked}} (due_at, attempts, last_error, headers, subscription, message_id, seq, appended_at,
                topic, key, payload, concurrency_key, key_limit, key_policy)
            SELECT clock_timestamp() + CASE WHEN l.failure IS NULL THEN interval '0'
                    ELSE coalesce((l.failure ->> 'delay')::float8, 1) * interval '1 second' END,
                (coalesce(l.failure ->> 'outcome', 'retry') = 'retry' AND l.failure IS NOT NULL)::integer,
                left(CASE WHEN l.failure IS NOT NULL THEN coalesce(l.failure ->> 'error', '') END, {{.MaxError}}),
                CASE WHEN l.failure ->> 'outcome' = 'fail' THEN
                        coalesce(CASE WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers END, '{}')
                        || jsonb_build_object('{{.Permanent}}',
                            left(coalesce(l.failure ->> 'error', ''), {{.MaxError}}))
                    WHEN jsonb_typeof(l.headers) = 'object' THEN l.headers - '{{.Permanent}}'
                    ELSE l.headers END, $1, l.id, l.seq, l.created_at, l.topic, l.key, l.payload,
                {{.ParkedKey "l.key"}}, CASE WHEN l.key IS NOT NULL THEN 0 END, CASE WHEN l.key IS NOT NULL THEN 1 END
            FROM (
                SELECT * FROM listed AS l
                WHERE l.seq <= own.most OR l.seq = ANY (own.ahead)
                ORDER BY l.seq) AS l
        )
        SELECT (SELECT count(DISTINCT l.seq) FROM listed AS l
                WHERE l.failure IS NOT NULL AND (l.seq <= own.most OR l.seq = ANY (own.ahead))),
            (SELECT coalesce(array_agg(l.seq ORDER BY l.seq), '{}') FROM listed AS l
                WHERE l.seq > own.most AND l.seq <> ALL (own.ahead))
        INTO own.named, own.withheld;
        {{.RefusesStrangers "own.named = cardinality(own.seqs)"}}
    ELSE
        withheld := own.p.withheld;
    END IF;

    is_end := own.p.whole AND own.most >= own.p.page;
    UPDATE {{.Named "position"}} AS t
    SET seen = CASE WHEN own.is_end THEN own.b ELSE t.seen END,
        upto = CASE WHEN own.is_end THEN NULL ELSE t.upto END,
        done = CASE WHEN own.is_end THEN 0 ELSE own.most END,
        page = CASE WHEN own.most < own.p.page THEN t.page END,
        whole = own.most < own.p.page AND t.whole,
        withheld = own.withheld,
        ahead = CASE WHEN own.is_end THEN '{}' ELSE own.ahead END,
        rest = CASE
            WHEN own.is_end THEN NULL -- without messages it could not probe
            WHEN own.most < own.p.page OR own.p.page = ANY (own.p.withheld) THEN t.rest -- nothing was handed out
            WHEN $4 @> '[{"outcome": "snooze"}]' THEN {{.RestAgain "t"}}
            END,
        -- what was handed out has killed nobody
        attempts = CASE WHEN own.is_end THEN 0 ELSE greatest(t.attempts - 1, 1) END,
        locked_until = CASE WHEN NOT own.is_end THEN greatest(t.locked_until, clock_timestamp() + $5) END
    WHERE t.subscription = $1 AND t.lane = own.p.lane;
    RETURN CASE WHEN own.is_end THEN 'ended' ELSE 'settled' END;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "settle"}}(text, uuid, bigint, jsonb, interval, bigint[]) FROM PUBLIC;

-- Renews the lease of the lane that the token holds, and says whether it still does.
CREATE FUNCTION {{.Named "extend"}}(subscription text, owner_token uuid, lease interval) RETURNS boolean
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAll}}
    {{.RefusesLease "$3"}}
    UPDATE {{.Named "position"}} AS p SET locked_until = greatest(p.locked_until, clock_timestamp() + $3)
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL;
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "extend"}}(text, uuid, interval) FROM PUBLIC;

-- Gives the lane back that the token holds, with the claim, and says whether it did: another consumer need not wait for
-- the end of the lease. What was not settled is handed out again. A probe that is given back has found out nothing: the
-- first rest begins anew.
CREATE FUNCTION {{.Named "release"}}(subscription text, owner_token uuid) RETURNS boolean
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.SeesAll}}
    UPDATE {{.Named "position"}} AS p
    SET locked_until = NULL, owner_token = NULL, page = NULL, whole = false, withheld = '{}',
        attempts = greatest(p.attempts - 1, 0), rest = {{.RestAgain "p"}}
    WHERE p.subscription = $1 AND p.owner_token = $2 AND p.locked_until IS NOT NULL;
    RETURN FOUND;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "release"}}(text, uuid) FROM PUBLIC;
