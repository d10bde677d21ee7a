-- Empties a slot if all positions have seen its messages and the newest is older than the retention, in a transaction
-- of the procedure trim. The position that is furthest behind has seen the least: what it has seen, all have.
-- Transactions that are open elsewhere keep nothing.
--
-- It locks the state against new subscriptions, and the slot only if it gets it at once: an open transaction that has
-- written there keeps its slot. What it found is looked up again under both locks, in a later statement.
CREATE FUNCTION {{.Named "trim_slot"}}(slot regclass, retention interval) RETURNS boolean
LANGUAGE plpgsql
{{.Settings}}
SET lock_timeout = '20ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    least {{.Named "seen"}};
    is_passed boolean;
    is_old boolean;
BEGIN
    {{.SeesAll}}
    {{.RefusesAge "$2"}}
    {{.RefusesSession "a trim"}}
    {{.RefusesRestored}}
    FOR step IN 1..2 LOOP
        SELECT (l.seen).* INTO own.least
        FROM (
            SELECT p.seen FROM {{.Named "position"}} AS p
            UNION ALL
            (SELECT t.seen FROM {{.Named "tick"}} AS t ORDER BY t.n DESC LIMIT 1)) AS l
        ORDER BY (l.seen).n LIMIT 1;
        EXECUTE format('SELECT max(m.xid) < $1 AND NOT EXISTS (SELECT FROM %1$s AS m WHERE m.xid = ANY ($2))
            FROM %1$s AS m', $1)
        INTO own.is_passed USING own.least.high, own.least.open;
        IF own.is_passed IS NOT TRUE THEN
            RETURN false;
        END IF;
        EXIT WHEN step = 2;
        EXECUTE format('SELECT max(m.created_at) < clock_timestamp() - $1 FROM %s AS m', $1) INTO own.is_old USING $2;
        IF own.is_old IS NOT TRUE THEN
            RETURN false;
        END IF;
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

REVOKE ALL ON FUNCTION {{.Named "trim_slot"}}(regclass, interval) FROM PUBLIC;

-- Ticks, so that a log without consumers has ticks, too. Empties the slots that all positions have passed, and deletes
-- the ticks that are older than the retention, all but the newest of them: positions have their own copies, and a start
-- or a cut at the retention finds that one. It commits after each slot, so that no caller keeps its locks, and cannot
-- pin a search_path: every name is qualified, and no operator is used.
CREATE PROCEDURE {{.Named "trim"}}(retention interval DEFAULT '7 days', INOUT emptied integer DEFAULT NULL)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    slot pg_catalog.regclass;
    was_emptied pg_catalog.bool;
BEGIN
    SELECT 0 INTO emptied;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    PERFORM {{.Named "tick_step"}}();
    FOREACH slot IN ARRAY ARRAY[
        {{- range $i, $n := .EachSlot}}{{if $i}}, {{end}}'{{$.Slot $n}}'{{end}}]::pg_catalog.regclass[] LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        SELECT {{.Named "trim_slot"}}(slot, retention) INTO was_emptied;
        IF was_emptied THEN
            SELECT emptied OPERATOR(pg_catalog.+) 1 INTO emptied;
        END IF;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    DELETE FROM {{.Named "tick"}} AS t
    WHERE t.at OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) retention)
      AND t.n OPERATOR(pg_catalog.<) (SELECT pg_catalog.max(l.n) FROM {{.Named "tick"}} AS l
        WHERE l.at OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) retention));
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE {{.Named "trim"}}(interval, integer) FROM PUBLIC;
