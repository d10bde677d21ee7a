-- Takes the lock of the writers of a key until the transaction ends. A time says until when messages of the key are
-- scheduled: the next one goes behind them, which the function append does. NULL: it goes to the log. It refuses too
-- many locks, as the guard does, which sees neither what is scheduled nor duplicates, and a COPY only once.
--
-- The look is a statement of its own, so that it sees what the writer before has committed. Who appends what is due
-- needs no lock: until it has committed, the next message goes behind what it appends. No search_path is pinned, which
-- would cost producers as much as all the rest: every name is qualified. A role that does not see all that is scheduled
-- is refused: what it writes could come before what its key has.
CREATE FUNCTION {{.Named "turn"}}(key text) RETURNS timestamptz
LANGUAGE plpgsql
AS $txwork$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock({{.QualifiedWriterLock "$1"}});
    {{template "turns" .}}
    IF {{.HidesLater}} THEN
        {{.RefusesPart}}
    END IF;
    RETURN (SELECT pg_catalog.max(l.due_at) FROM {{.Named "later"}} AS l
        WHERE l.ordered AND l.key OPERATOR(pg_catalog.=) $1);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Named "turn"}}(text) FROM PUBLIC;
