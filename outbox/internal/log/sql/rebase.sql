-- Continues a log in a cluster whose transaction ids began again, as after a restore or a logical replication: ids are
-- raised so that those of all transactions that may still write come after all that the log has. A tick says that
-- everything before has ended, which is so: it was in another cluster. Returns the shift. Elsewhere it changes nothing.
CREATE FUNCTION {{.Named "rebase"}}() RETURNS bigint
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    base bigint;
    drawn bigint;
    moved bigint;
    newest bigint;
BEGIN
    {{.SeesAll}}
    {{.RefusesSession "a rebase"}}
{{template "unless_restored" .}} -- where it is not needed, nobody waits for it
    {{.LocksLog}}
    PERFORM pg_advisory_xact_lock({{.TickLock}});
    PERFORM FROM {{.Named "state"}} AS s FOR UPDATE;
{{template "unless_restored" .}}
    SELECT greatest(0, (SELECT max(m.xid) FROM {{.Log}} AS m),
            (SELECT max((t.seen).high) FROM {{.Named "tick"}} AS t),
            (SELECT max(greatest((p.seen).high, (p.upto).high)) FROM {{.Named "position"}} AS p)),
        greatest({{.Drawn}}, (SELECT max(m.seq) FROM {{.Log}} AS m)),
        greatest((SELECT max(t.n) FROM {{.Named "tick"}} AS t),
            (SELECT max(greatest((p.seen).n, (p.upto).n)) FROM {{.Named "position"}} AS p), 0)
    INTO own.base, own.drawn, own.newest;
    PERFORM setval('{{.Named "seq"}}', greatest(own.drawn, 1), own.drawn > 0);
    PERFORM setval(pg_get_serial_sequence('{{.Named "later"}}', 'ord'), max(l.ord)) FROM {{.Named "later"}} AS l;
    SELECT greatest(own.moved, own.base + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint) INTO own.moved;
    INSERT INTO {{.Named "tick"}} (n, at, seen)
    VALUES (own.newest + 1, clock_timestamp(),
        ROW(own.newest + 1, own.base + 1, own.base + 1, '{}'::bigint[], own.drawn)::{{.Named "seen"}});
    PERFORM {{.Named "shift"}}(own.moved);
    UPDATE {{.Named "state"}} AS s SET system = (SELECT c.system_identifier FROM pg_control_system() AS c);
    RETURN own.moved;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "rebase"}}() FROM PUBLIC;
{{- define "unless_restored"}}    SELECT s.shift INTO own.moved FROM {{.Named "state"}} AS s;
    IF ({{.IsRestored}}) IS NOT TRUE THEN
        RETURN own.moved;
    END IF;
{{- end}}
