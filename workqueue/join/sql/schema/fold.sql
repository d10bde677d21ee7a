-- Applies the notes of settles, starts and sweeps. One folder runs at a time: it takes an advisory lock before it
-- reads, and each later statement sees what the previous folder committed. It never waits for a lock: rows that another
-- session holds are tried again in half a second.
--
-- Returns how many notes it took, how many continuations it released, in how many seconds the next note is due, and the
-- time of the latest note that it took. All are NULL if another session folds, or if this transaction would not see
-- what that one commits. If the database refuses to end a join, for instance by a trigger of yours on {{.Name}}, the
-- other joins still end.
CREATE FUNCTION {{.Function "fold"}}(max_notes integer, since timestamptz DEFAULT '-infinity')
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_generic_plan
AS $txwork$
BEGIN
    {{.SeesAll}}
    {{.Bounded "max_notes" "max_notes"}}
    IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock({{.FoldLock}}) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM {{.Function "apply"}}(max_notes, since, false);
    EXCEPTION WHEN OTHERS THEN
        RETURN QUERY SELECT * FROM {{.Function "apply"}}(max_notes, since, true);
    END;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "fold"}}(integer, timestamptz) FROM PUBLIC;
