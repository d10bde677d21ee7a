-- What a settle, a start and a sweep have noted is applied here, by one folder at a time: it locks before it reads, and
-- each statement after that sees what the folder before it has committed. It waits for nobody: what somebody holds is
-- looked at again in half a second.
--
-- Returns how many notes it took, how many continuations it released, in how many seconds the next note is due, and the
-- latest note that it took. All NULL: somebody else folds, or this transaction could not see what they did. What the
-- database refuses to end, such as by a trigger of yours on {{.Name}}, keeps no other join from its end.
CREATE FUNCTION {{.Function "fold"}}(max_notes integer, since timestamptz DEFAULT '-infinity')
RETURNS TABLE (folded integer, released integer, again double precision, upto timestamptz)
LANGUAGE plpgsql
{{.Settings}}
SET plan_cache_mode = force_generic_plan
AS $txwork$
BEGIN
    IF (max_notes >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_notes is %, it must be at least 1', max_notes USING ERRCODE = 'invalid_parameter_value';
    END IF;
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
