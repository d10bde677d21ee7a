-- The transaction of the procedure tick. It takes the lock of the tickers, and the snapshot in a later statement: so a
-- tick has seen all that an earlier tick has. It stores a tick if a message has come that the newest tick has not seen
-- end. It asks the index and not the sequence: a number that was drawn before the last tick may be committed after it.
-- The ids between those that are open are asked for, gap by gap: a million rows of an open transaction are passed over.
--
-- Where nobody has ticked for long, it stores several ticks, so that no batch is large, see the template parts.
--
-- It announces the tick to the subscriptions that want one of its messages, as far as their topics tell, and to all if
-- it has many.
--
-- promise says for how long its caller, which is called the keeper of the tick, will tick again at short intervals.
-- Producers do not announce their messages meanwhile. No promise ends one of before, which an older snapshot of a
-- producer may see. A tick without a promise inherits that of the tick before. The keeper goes on until another one has
-- promised, or expects is false: then the time is over, and no transaction is open that was silent. It has tried their
-- lock before it took its snapshot.
CREATE FUNCTION {{.Named "tick_step"}}(
    promise interval DEFAULT NULL, OUT newest bigint, OUT stored boolean, OUT keeper bigint, OUT expects boolean,
    OUT announced text
)
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_custom_plan
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '10s'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    seen pg_snapshot;
    last {{.Named "seen"}};
    now {{.Named "seen"}};
    parts bigint;
    silent_until timestamptz;
    news bigint;
    topics text[];
BEGIN
    {{.SeesAll}}
    IF pg_is_in_recovery() OR current_setting('transaction_isolation') <> 'read committed'
        OR pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
            MESSAGE = 'a tick needs a READ COMMITTED transaction of its own on the primary',
            HINT = 'CALL {{.Name}}_tick() outside of transactions.';
    END IF;
    PERFORM pg_advisory_xact_lock({{.TickLock}});
    {{.RefusesRestored}}

    SELECT t.silent_until, t.keeper, (t.seen).* INTO own.silent_until, keeper, own.last.n, own.last.low, own.last.high,
        own.last.open, own.last.seq
    FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1;
    expects := $1 IS NOT NULL AND (
        own.silent_until > clock_timestamp() IS TRUE OR NOT pg_try_advisory_xact_lock({{.SilentLock}}));
    stored := own.last.n IS NULL;
    IF stored THEN -- the first tick, or all were deleted
        SELECT 0, 0, 0, '{}', 0 INTO own.last;
    END IF;
    SELECT pg_current_snapshot() INTO own.seen;
    SELECT own.last.n + 1, pg_snapshot_xmin(own.seen)::text::bigint + s.shift,
        pg_snapshot_xmax(own.seen)::text::bigint + s.shift,
        ARRAY(SELECT x::text::bigint + s.shift FROM pg_snapshot_xip(own.seen) AS x),
        {{.Drawn}}
    INTO own.now
    FROM {{.Named "state"}} AS s;
    newest := own.last.n;

    SELECT count(*), array_agg(DISTINCT m.topic) INTO own.news, own.topics
    FROM (
        (SELECT m.topic::text
            FROM unnest(own.last.open) AS x
            CROSS JOIN LATERAL (SELECT m.topic FROM {{.Log}} AS m WHERE m.xid = x LIMIT {{.MaxNews}}) AS m
            WHERE x <> ALL (own.now.open))
        UNION ALL
        (SELECT m.topic::text
            FROM (
                SELECT b.x AS after, lead(b.x) OVER (ORDER BY b.x) AS before
                FROM unnest(ARRAY[own.last.high - 1, own.now.high] || own.now.open) AS b (x)
                WHERE b.x >= own.last.high - 1) AS gap
            CROSS JOIN LATERAL (
                SELECT m.topic FROM {{.Log}} AS m
                WHERE m.xid > gap.after AND m.xid < gap.before LIMIT {{.MaxNews}}) AS m
            WHERE gap.before > gap.after + 1)
        LIMIT {{.MaxNews}}) AS m;
    stored := stored OR own.news > 0;
    IF stored THEN
        IF $1 IS NOT NULL THEN
            silent_until := clock_timestamp() + least(interval '{{.MaxPromise}}',
                greatest($1, own.silent_until - clock_timestamp()));
            expects := true;
        END IF;
        -- Positions may have seen ticks that were deleted since, and look for later ones only.
        SELECT greatest(own.now.n, 1 + max(greatest((p.seen).n, (p.upto).n))) INTO own.now.n
        FROM {{.Named "position"}} AS p;
        IF own.now.seq - own.last.seq BETWEEN {{.BatchSize}} + 1 AND {{.MaxDivided}} THEN
{{template "parts" .}}
            GET DIAGNOSTICS parts = ROW_COUNT;
            now.n := own.now.n + own.parts;
        END IF;
        newest := own.now.n;
        keeper := CASE WHEN $1 IS NULL THEN keeper ELSE newest END;
        INSERT INTO {{.Named "tick"}} (n, at, silent_until, keeper, seen)
        VALUES (newest, clock_timestamp(), own.silent_until, keeper, own.now);
        IF own.news < {{.MaxNews}} THEN
            SELECT CASE WHEN octet_length(json_agg(s.name)::text) > 7000 THEN '*' ELSE json_agg(s.name)::text END
            INTO announced
            FROM {{.Named "subscription"}} AS s
            WHERE NOT s.paused
              AND (s.topics IS NULL OR s.topics && own.topics
                OR EXISTS (SELECT FROM unnest(own.topics) AS t WHERE t ^@ ANY (s.prefixes)));
        ELSE
            announced := '*';
        END IF;
        IF announced IS NOT NULL THEN
            PERFORM {{.Announce "announced"}};
        END IF;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "tick_step"}}(interval) FROM PUBLIC;

-- Appends what is due, and stores a tick if there is news. What cannot be appended keeps nobody from ticking. It
-- commits by itself: in a caller's transaction PostgreSQL refuses it (2D000), so nobody keeps the lock of the tickers.
-- A crash may undo a tick, and the next one sees the same and more: so its commit does not wait for the log. It cannot
-- pin a search_path: every name and operator is qualified.
CREATE PROCEDURE {{.Named "tick"}}(
    INOUT newest bigint DEFAULT NULL, INOUT stored boolean DEFAULT NULL, promise interval DEFAULT NULL,
    INOUT keeper bigint DEFAULT NULL, INOUT expects boolean DEFAULT NULL, INOUT announced text DEFAULT NULL
)
LANGUAGE plpgsql
AS $txwork$
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF {{.HidesLater}} OR EXISTS (SELECT FROM {{.Named "later"}} AS l
        WHERE l.due_at OPERATOR(pg_catalog.<=) pg_catalog.now()) THEN
        BEGIN
            PERFORM {{.Named "append_due"}}({{.MaxDue}});
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE 'messages that are due stay scheduled: %', SQLERRM;
        END;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    END IF;
    SET LOCAL synchronous_commit TO off;
    SELECT s.newest, s.stored, s.keeper, s.expects, s.announced INTO newest, stored, keeper, expects, announced
    FROM {{.Named "tick_step"}}(promise) AS s;
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE {{.Named "tick"}}(bigint, boolean, interval, bigint, boolean, text) FROM PUBLIC;
