-- Deletes ticks that are older than the retention, all but the newest of them, which is returned: positions have their
-- own copies, and a start or a cut at the retention finds that one. It looks at the oldest ticks only, and leaves those
-- that somebody has locked: its caller may have the lock of the tickers.
CREATE FUNCTION {{.Named "outlived"}}(retention interval, most integer) RETURNS {{.Named "seen"}}
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    last bigint;
    seen {{.Named "seen"}};
BEGIN
    {{.SeesAll}}
    {{.RefusesAge "$1"}}
    {{.RefusesSession "a trim"}}
    {{.RefusesRestored}}
    SELECT max(o.n) INTO own.last
    FROM (SELECT t.n, t.at FROM {{.Named "tick"}} AS t ORDER BY t.n LIMIT $2) AS o
    WHERE o.at <= clock_timestamp() - $1;
    DELETE FROM {{.Named "tick"}} AS t
    USING (SELECT o.n FROM {{.Named "tick"}} AS o WHERE o.n < own.last FOR UPDATE SKIP LOCKED) AS o
    WHERE t.n = o.n;
    SELECT (t.seen).* INTO own.seen FROM {{.Named "tick"}} AS t WHERE t.n = own.last;
    RETURN own.seen;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "outlived"}}(interval, integer) FROM PUBLIC;

-- What all positions and a tick have seen: that of the one that has seen the least, since ticks are ordered. NULL: it
-- has seen nothing.
CREATE FUNCTION {{.Named "least"}}(old {{.Named "seen"}}) RETURNS {{.Named "seen"}}
LANGUAGE sql STABLE
{{.Settings}}
AS $txwork$
    SELECT l.seen
    FROM (SELECT p.seen FROM {{.Named "position"}} AS p UNION ALL SELECT $1) AS l (seen)
    ORDER BY (l.seen).n NULLS FIRST LIMIT 1
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "least"}}({{.Named "seen"}}) FROM PUBLIC;

-- Frees dedup keys whose messages all positions and a tick have seen, but for those of messages that are still
-- scheduled, or were rows and have not ended (see {{.Name}}_move_rows): it puts these behind all others. Says how many
-- it has looked at.
CREATE FUNCTION {{.Named "trim_dedup"}}(old {{.Named "seen"}}, most integer) RETURNS integer
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    least {{.Named "seen"}};
    looked integer;
BEGIN
    {{.SeesAll}}
    {{.SeesLater}}
    {{.RefusesSession "a trim"}}
    SELECT l.* INTO own.least FROM {{.Named "least"}}($1) AS l;
    WITH passed AS MATERIALIZED (
        SELECT d.topic, d.dedup_key, EXISTS (
                SELECT FROM {{.Named "later"}} AS l
                WHERE l.topic = d.topic AND l.dedup_key = d.dedup_key)
            OR EXISTS (
                SELECT FROM {{.Parked}} AS k WHERE k.id = d.id AND k.completed_at IS NULL) AS is_scheduled
        FROM {{.Named "dedup"}} AS d
        WHERE d.xid < own.least.high AND d.xid <> ALL (own.least.open)
        ORDER BY d.xid LIMIT $2 FOR UPDATE SKIP LOCKED
    ), freed AS (
        DELETE FROM {{.Named "dedup"}} AS d USING passed AS p
        WHERE NOT p.is_scheduled AND d.topic = p.topic AND d.dedup_key = p.dedup_key
    ), kept AS (
        UPDATE {{.Named "dedup"}} AS d SET xid = DEFAULT FROM passed AS p
        WHERE p.is_scheduled AND d.topic = p.topic AND d.dedup_key = p.dedup_key
    )
    SELECT count(*) INTO own.looked FROM passed;
    RETURN own.looked;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "trim_dedup"}}({{.Named "seen"}}, integer) FROM PUBLIC;

-- Empties a slot if all positions and a tick have seen its messages. What has seen the least decides: what it has seen,
-- all have. Transactions that are open elsewhere keep nothing.
--
-- It locks the state against new subscriptions, and the slot only if it gets it at once: an open transaction that has
-- written there keeps its slot. What it found is looked up again under both locks, in a later statement.
CREATE FUNCTION {{.Named "trim_slot"}}(slot regclass, old {{.Named "seen"}}) RETURNS boolean
LANGUAGE plpgsql
{{.Settings}}
SET lock_timeout = '20ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    least {{.Named "seen"}};
    is_passed boolean;
BEGIN
    {{.SeesAll}}
    {{.SeesSlots}}
    {{.RefusesSession "a trim"}}
    FOR step IN 1..2 LOOP
        SELECT l.* INTO own.least FROM {{.Named "least"}}($2) AS l;
        EXECUTE format('SELECT max(m.xid) < $1 AND NOT EXISTS (SELECT FROM %1$s AS m WHERE m.xid = ANY ($2))
            FROM %1$s AS m', $1)
        INTO own.is_passed USING own.least.high, own.least.open;
        IF own.is_passed IS NOT TRUE THEN
            RETURN false;
        END IF;
        EXIT WHEN step = 2;
        PERFORM FROM {{.Named "state"}} AS s FOR UPDATE;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', $1);
    END LOOP;
    UPDATE {{.Named "state"}} AS s SET gone = greatest(s.gone, own.least.n);
    EXECUTE format('TRUNCATE %s', $1);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false; -- a later call gets it
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "trim_slot"}}(regclass, {{.Named "seen"}}) FROM PUBLIC;

-- Ticks, so that a log without consumers has ticks, too. Empties the slots that all positions, and a tick that is older
-- than the retention, have passed, frees their dedup keys, and thins out ticks. It commits after each slot and each
-- {{.MaxKeys}} keys, so that no caller keeps its locks, and cannot pin a search_path: every name and operator is
-- qualified.
CREATE PROCEDURE {{.Named "trim"}}(retention interval DEFAULT '{{.Retention}}', INOUT emptied integer DEFAULT NULL)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    slot pg_catalog.regclass;
    old {{.Named "seen"}};
    was_emptied pg_catalog.bool;
BEGIN
    SELECT 0 INTO emptied;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    PERFORM {{.Named "tick_step"}}();
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    LOOP
        EXIT WHEN {{.Named "thin"}}() OPERATOR(pg_catalog.=) 0;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    END LOOP;
    SELECT o.* INTO old FROM {{.Named "outlived"}}(retention, 2147483647) AS o;
    FOREACH slot IN ARRAY ARRAY[
        {{- range $i, $n := .EachSlot}}{{if $i}}, {{end}}'{{$.Slot $n}}'{{end}}]::pg_catalog.regclass[] LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SELECT {{.Named "trim_slot"}}(slot, old) INTO was_emptied;
        IF was_emptied THEN
            SELECT emptied OPERATOR(pg_catalog.+) 1 INTO emptied;
        END IF;
    END LOOP;
    LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        EXIT WHEN {{.Named "trim_dedup"}}(old, {{.MaxKeys}}) OPERATOR(pg_catalog.=) 0;
    END LOOP;
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE {{.Named "trim"}}(interval, integer) FROM PUBLIC;

-- What trim does, as a sweep of the parked messages: so whoever maintains these trims the log, and ticks it, which
-- matters if it has no consumers. It ticks only if nobody else does at the moment, and its transaction has done nothing
-- before: it has the lock of the tickers until its caller ends that, which may be idle in it for a second. It empties
-- one slot at most, so that its locks are held for one TRUNCATE. It deletes as many ticks and dedup keys as it is told
-- to, and appends as many messages that are due, but no more than 100, since consumers wait for the lock meanwhile. If
-- ticks are left that are old enough, it says that it has done as much as it may, so that its caller goes on. It
-- runs with its owner's rights, since workers have none to remove messages: it takes no retention, so that they remove
-- nothing that is younger.
CREATE FUNCTION {{.Named "parked_trim"}}(max_rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    slot regclass;
    old {{.Named "seen"}};
    freed integer;
BEGIN
    {{.RefusesRows "$1"}}
    IF current_setting('transaction_isolation') = 'read committed' AND pg_current_xact_id_if_assigned() IS NULL
        AND pg_try_advisory_xact_lock({{.TickLock}}) THEN
        {{.IdleBound "interval '1 second'"}}
        PERFORM {{.Named "tick_step"}}();
    END IF;
    BEGIN
        PERFORM {{.Named "append_due"}}(least($1, 100));
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE 'messages that are due stay scheduled: %', SQLERRM;
    END;
    SELECT o.* INTO own.old FROM {{.Named "outlived"}}('{{.Retention}}', $1) AS o;
    SELECT {{.Named "trim_dedup"}}(own.old, $1) INTO own.freed;
    IF own.freed > 0 THEN
        {{.IdleBound "interval '1 second'"}}
    END IF;
    FOREACH slot IN ARRAY ARRAY[
        {{- range $i, $n := .EachSlot}}{{if $i}}, {{end}}'{{$.Slot $n}}'{{end}}]::regclass[] LOOP
        IF {{.Named "trim_slot"}}(slot, own.old) THEN
            {{.IdleBound "interval '1 second'"}}
            freed := own.freed + 1;
            EXIT;
        END IF;
    END LOOP;
    IF (SELECT t.at FROM {{.Named "tick"}} AS t WHERE t.n > own.old.n ORDER BY t.n LIMIT 1)
        <= clock_timestamp() - interval '{{.Retention}}' THEN
        freed := greatest(own.freed, $1);
    END IF;
    RETURN own.freed;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "parked_trim"}}(integer) FROM PUBLIC;
