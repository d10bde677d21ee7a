-- Empties a slot if all positions have passed its messages and the newest is older than the retention, in a transaction
-- of the procedure trim. It locks the state against new subscriptions, and the slot only if it gets it at once: an open
-- transaction that has written there keeps its slot. What it found is looked up again under both locks, in a later
-- statement.
CREATE FUNCTION {{.Named "trim_slot"}}(slot regclass, retention interval) RETURNS boolean
LANGUAGE plpgsql
{{.Settings}}
SET lock_timeout = '20ms'
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    greatest_id bigint;
    is_old boolean;
BEGIN
    {{.SeesAll}}
    {{.RefusesAge "$2"}}
    {{.RefusesSession "a trim"}}
    {{.RefusesRestored}}
    EXECUTE format('SELECT max(m.xid) FROM %s AS m', $1) INTO own.greatest_id;
    IF ({{.IsPassed "own.greatest_id"}}) IS NOT TRUE THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT max(m.created_at) < clock_timestamp() - $1 FROM %s AS m', $1) INTO own.is_old USING $2;
    IF own.is_old IS NOT TRUE THEN
        RETURN false;
    END IF;
    PERFORM FROM {{.Named "state"}} AS s FOR UPDATE;
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', $1);
    EXECUTE format('SELECT max(m.xid) FROM %s AS m', $1) INTO own.greatest_id;
    IF ({{.IsPassed "own.greatest_id"}}) IS NOT TRUE THEN
        RETURN false;
    END IF;
    UPDATE {{.Named "state"}} AS s SET gone = greatest(s.gone, own.greatest_id);
    EXECUTE format('TRUNCATE %s', $1);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false; -- a later call gets it
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "trim_slot"}}(regclass, interval) FROM PUBLIC;

-- Empties the slots that all positions have passed, and deletes the ticks that are older than the retention, all but
-- the newest: positions have their own copies. It commits after each slot, so that no caller keeps its locks, and
-- cannot pin a search_path: every name is qualified, and no operator is used.
CREATE PROCEDURE {{.Named "trim"}}(retention interval DEFAULT '7 days', INOUT emptied integer DEFAULT NULL)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    slot pg_catalog.regclass;
    was_emptied pg_catalog.bool;
BEGIN
    SELECT 0 INTO emptied;
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
      AND t.n OPERATOR(pg_catalog.<) (SELECT pg_catalog.max(l.n) FROM {{.Named "tick"}} AS l);
    COMMIT;
END
$txwork$;

REVOKE ALL ON PROCEDURE {{.Named "trim"}}(interval, integer) FROM PUBLIC;
