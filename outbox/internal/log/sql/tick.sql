-- The transaction of the procedure tick. It takes the lock of the tickers, and the snapshot in a later statement: so a
-- tick has seen all that an earlier tick has. It stores a tick if a message has come that the newest tick has not seen
-- end. It asks the index and not the sequence: a number that was drawn before the last tick may be committed after it.
-- The ids between those that are open are asked for, gap by gap: a million rows of an open transaction are passed over.
--
-- Where nobody has ticked for long, it stores several ticks, so that no batch is large, see the template parts.
CREATE FUNCTION {{.Named "tick_step"}}(OUT newest bigint, OUT stored boolean)
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

    SELECT (t.seen).* INTO own.last FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1;
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

    stored := stored OR EXISTS (
        SELECT FROM unnest(own.last.open) AS x
        CROSS JOIN LATERAL (SELECT FROM {{.Log}} AS m WHERE m.xid = x LIMIT 1) AS m
        WHERE x <> ALL (own.now.open));
    stored := stored OR EXISTS (
        SELECT FROM (
            SELECT b.x AS after, lead(b.x) OVER (ORDER BY b.x) AS before
            FROM unnest(ARRAY[own.last.high - 1, own.now.high] || own.now.open) AS b (x)
            WHERE b.x >= own.last.high - 1) AS gap
        CROSS JOIN LATERAL (
            SELECT FROM {{.Log}} AS m WHERE m.xid > gap.after AND m.xid < gap.before LIMIT 1) AS m
        WHERE gap.before > gap.after + 1);
    IF stored THEN
        -- Positions may have seen ticks that were deleted since, and look for later ones only.
        SELECT greatest(own.now.n, 1 + max(greatest((p.seen).n, (p.upto).n))) INTO own.now.n
        FROM {{.Named "position"}} AS p;
        IF own.now.seq - own.last.seq BETWEEN {{.BatchSize}} + 1 AND {{.MaxDivided}} THEN
{{template "parts" .}}
            GET DIAGNOSTICS parts = ROW_COUNT;
            now.n := own.now.n + own.parts;
        END IF;
        INSERT INTO {{.Named "tick"}} (n, at, seen) VALUES (own.now.n, clock_timestamp(), own.now);
        newest := own.now.n;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "tick_step"}}() FROM PUBLIC;

-- Appends what is due, and stores a tick if there is news. What cannot be appended keeps nobody from ticking. It
-- commits by itself: in a caller's transaction PostgreSQL refuses it (2D000), so nobody keeps the lock of the tickers.
-- A crash may undo a tick, and the next one sees the same and more: so its commit does not wait for the log. It cannot
-- pin a search_path: every name and operator is qualified.
CREATE PROCEDURE {{.Named "tick"}}(INOUT newest bigint DEFAULT NULL, INOUT stored boolean DEFAULT NULL)
LANGUAGE plpgsql
AS $txwork$
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF EXISTS (SELECT FROM {{.Named "later"}} AS l
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
    SELECT s.newest, s.stored INTO newest, stored FROM {{.Named "tick_step"}}() AS s;
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE {{.Named "tick"}}(bigint, boolean) FROM PUBLIC;
