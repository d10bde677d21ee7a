-- Cuts subscriptions that are further behind than their retention allows, as {{.Name}}_cut does: messages that are
-- older than max_age, or behind which the log has drawn max_messages numbers, are passed over, counted and recorded,
-- and no others. It acts once a subscription is a tenth beyond its bound, or a minute, and cuts to the bound: so a
-- consumer that is a little too slow is not interrupted all the time. A rest of its destination goes on.
--
-- It is a sweep of the parked messages, as {{.Name}}_parked_trim is, with the rights of its owner for the same reason,
-- and in a transaction of its own, in which nobody ticks. Of each subscription it looks at {{.MaxOutlived}} ticks, and
-- passes over about {{.MaxPassed}} numbers of the log: the next call goes on. It waits 0.2 seconds for what a consumer
-- has locked, and not at all for other verbs. It returns how many subscriptions it has moved, and leaves what is to be
-- logged in the setting txwork.told_retain.
CREATE FUNCTION {{.Named "parked_retain"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
SET lock_timeout = '200ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    name text;
    s {{.Named "subscription"}};
    behind {{.Named "seen"}};
    target {{.Named "seen"}};
    began timestamptz;
    rests smallint; -- the lane that has the rest
    rest {{.Named "rest"}};
    lost bigint;
    oldest timestamptz;
    newest timestamptz;
    told jsonb := '[]';
    cut integer := 0;
BEGIN
    {{.SeesAll}}
    {{.RefusesRows "$1"}}
    {{.RefusesSession "a retention"}}
    {{.RefusesRestored}}
    FOR own.name IN
        SELECT s.name
        FROM {{.Named "subscription"}} AS s
        CROSS JOIN LATERAL (
            SELECT p.seen FROM {{.Named "position"}} AS p WHERE p.subscription = s.name
            ORDER BY (p.seen).n LIMIT 1) AS f
        CROSS JOIN LATERAL (
            SELECT t.at FROM {{.Named "tick"}} AS t WHERE t.n > (f.seen).n ORDER BY t.n LIMIT 1) AS t
        WHERE {{.Retains "s"}}
          AND (t.at < clock_timestamp() - s.max_age - least(s.max_age / 10, interval '1 minute')
            OR {{.Drawn}} - (f.seen).seq > s.max_messages + s.max_messages / 10)
          AND NOT EXISTS (SELECT FROM {{.Named "state"}} AS m WHERE m.moving AND m.successor = s.name)
        ORDER BY s.name
    LOOP
        BEGIN
            -- What it is allowed may have changed since it was looked up.
            SELECT s.* INTO own.s FROM {{.Named "subscription"}} AS s WHERE s.name = own.name
            FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN own.s.name IS NULL;
            PERFORM FROM {{.Named "position"}} AS p WHERE p.subscription = own.name ORDER BY p.lane FOR UPDATE;
            SELECT (p.seen).* INTO own.behind FROM {{.Named "position"}} AS p WHERE p.subscription = own.name
            ORDER BY (p.seen).n LIMIT 1;
            SELECT (o.seen).* INTO own.target
            FROM (
                SELECT t.n, t.at, t.seen FROM {{.Named "tick"}} AS t
                WHERE t.n > own.behind.n ORDER BY t.n LIMIT {{.MaxOutlived}}) AS o
            WHERE (o.at < clock_timestamp() - own.s.max_age OR (o.seen).seq <= {{.Drawn}} - own.s.max_messages)
              AND ((o.seen).seq <= own.behind.seq + {{.MaxPassed}}
                OR o.n = (SELECT min(t.n) FROM {{.Named "tick"}} AS t WHERE t.n > own.behind.n))
            ORDER BY o.n DESC LIMIT 1;
            CONTINUE WHEN own.target.n IS NULL;

            SELECT p.lane, (p.rest).* INTO own.rests, own.rest.since, own.rest.until, own.rest.length, own.rest.cause
            FROM {{.Named "position"}} AS p WHERE p.subscription = own.name AND (p.rest).since IS NOT NULL;
            began := clock_timestamp();
            PERFORM FROM {{.Named "move"}}(own.name, own.target, 'retention');
            cut := own.cut + 1;
            UPDATE {{.Named "position"}} AS p SET rest = own.rest
            WHERE p.subscription = own.name AND p.lane = own.rests;
            SELECT sum(o.messages), min(o.oldest), max(o.newest) INTO own.lost, own.oldest, own.newest
            FROM {{.Named "loss"}} AS o
            WHERE o.subscription = own.name AND o.at >= own.began AND o.why = 'retention';
            CONTINUE WHEN own.lost IS NULL;

            -- Losses that follow each other on one day are one row.
            WITH before AS (
                DELETE FROM {{.Named "loss"}} AS b USING {{.Named "loss"}} AS o
                WHERE o.subscription = own.name AND o.at >= own.began AND o.why = 'retention'
                  AND b.subscription = o.subscription AND b.lane = o.lane AND b.why = o.why AND b.ended = o.began
                  AND b.at < own.began AND date_trunc('day', b.at, 'UTC') = date_trunc('day', o.at, 'UTC')
                RETURNING b.*
            )
            UPDATE {{.Named "loss"}} AS o
            SET began = b.began, messages = o.messages + b.messages, oldest = least(o.oldest, b.oldest),
                newest = greatest(o.newest, b.newest)
            FROM before AS b
            WHERE o.subscription = b.subscription AND o.lane = b.lane AND o.why = b.why AND o.began = b.ended
              AND o.at >= own.began;
            told := own.told || jsonb_build_object('message', '{{.LostByRetention}}', 'subscription', own.name,
                'messages', own.lost, 'oldest', own.oldest, 'newest', own.newest);
            RAISE WARNING 'subscription % of {{.Name}} has lost % messages by its retention, up to %', own.name,
                own.lost, own.newest;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE; -- a later call gets it
        END;
    END LOOP;
    PERFORM set_config('txwork.told_retain', own.told::text, true) WHERE own.cut > 0;
    IF {{.Named "thin"}}() + own.cut > 0 THEN -- at the end, since it locks what new subscriptions wait for
        {{.IdleBound "interval '1 second'"}}
    END IF;
    RETURN own.cut;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "parked_retain"}}(integer) FROM PUBLIC;
