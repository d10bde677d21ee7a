-- Deletes rows that ended longer ago than their retention: the caller's, or the table's own by default. A NULL
-- retention keeps rows for ever. Cancelled rows are kept and counted like done ones.
CREATE FUNCTION {{.Function "purge"}}(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT {{.DoneAge}},
    failed_retention interval DEFAULT {{.FailedAge}}
) RETURNS TABLE (done integer, failed integer)
LANGUAGE plpgsql
{{.FunctionSettings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{.Bounded "$1" "max_rows"}}
    {{.RefusesAge "$2" "retention"}}
    {{.RefusesAge "$3" "failed_retention"}}
    RETURN QUERY
    WITH purged_done AS (
{{.Purged "purge_done" "$2"}}
    ), purged_failed AS (
{{.Purged "purge_failed" "$3"}}
    )
    SELECT (SELECT count(*)::integer FROM purged_done), (SELECT count(*)::integer FROM purged_failed);
END
$txwork$;

-- One transaction of one kind of maintenance. It returns what kept it from doing all instead of raising it, so that the
-- other kinds still get their turn. crowded says that it did as much as it may, so that much is left. If it fails, and
-- while there are rows that it has skipped, it does the rows that it can with the function each. A sweep or a fold that
-- fails is left as it is. A role that does not see all rows is refused, so that the procedure does not record that it
-- ran.
CREATE FUNCTION {{.Function "maintain_step"}}(
    kind text, most integer, retention interval, failed_retention interval, INOUT skipped uuid[], INOUT problem text,
    OUT more boolean, OUT crowded boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
DECLARE
    n integer;
    e record;
BEGIN
    {{.SeesAll}}
    {{.Bounded "$2" "max_rows"}}
    {{.RefusesAge "$3" "retention"}}
    {{.RefusesAge "$4" "failed_retention"}}
    more := false;
    crowded := false;
    IF cardinality(skipped) = 0 THEN
        BEGIN
            CASE $1
            {{- range .Maintenance}}
            WHEN '{{.Kind}}' THEN
                n := ({{.Query}});
            {{- end}}
            END CASE;
            more := n > 0;
            crowded := n >= $2;
            RETURN;
        EXCEPTION WHEN others THEN
            problem := $1 || ': ' || SQLERRM;
        END;
    END IF;
    IF $1 NOT IN ('reap_expired', 'purge_done', 'purge_failed') OR cardinality(skipped) >= {{.MaxSkipped}} THEN
        RETURN;
    END IF;
    BEGIN
        SELECT * INTO e
        FROM {{.Function "each"}}($1, $2, CASE $1 WHEN 'purge_done' THEN $3 WHEN 'purge_failed' THEN $4 END, skipped);
    EXCEPTION WHEN others THEN
        problem := $1 || ': ' || SQLERRM;
        RETURN;
    END;
    n := e.done + e.failed + cardinality(e.skipped);
    more := n > 0;
    crowded := n >= $2;
    skipped := skipped || e.skipped;
    IF cardinality(skipped) = 0 AND more THEN -- if nothing was done, the failure has another cause than rows
        problem := NULL;
    ELSIF cardinality(e.skipped) > 0 THEN
        problem := format('%s skipped %s rows, such as %s: %s', $1, cardinality(skipped), e.skipped[1], e.problems[1]);
    END IF;
END
$txwork$;

-- All maintenance of the table, until nothing is left. A kind that has much to do lets the others have their turn after
-- {{.MaxSteps}} transactions, so that a long deletion does not keep expired leases from being requeued. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran and what it left undone, for the check that looks for tables
-- without maintenance. It skips that if the schema has no table for the record, such as a schema with only an
-- application's own tables, or if the role may not write to it. Then it raises what it left undone.
CREATE PROCEDURE {{.Function "maintain"}}(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT {{.DoneAge}},
    failed_retention interval DEFAULT {{.FailedAge}}
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind pg_catalog.text;
    more boolean;
    crowded boolean;
    unfinished boolean;
    skipped pg_catalog.uuid[];
    said pg_catalog.text;
    problem pg_catalog.text;
BEGIN
    FOR round IN 1..{{.MaxRounds}} LOOP
        SELECT false, NULL INTO unfinished, problem;
        FOREACH kind IN ARRAY ARRAY[{{range $i, $m := .Maintenance}}{{if $i}}, {{end}}'{{$m.Kind}}'{{end}}] LOOP
            SELECT ARRAY[]::pg_catalog.uuid[], NULL INTO skipped, said;
            FOR step IN 1..{{.MaxSteps}} LOOP
                COMMIT;
                SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
                SELECT s.more, s.crowded, s.skipped, s.problem INTO more, crowded, skipped, said
                FROM {{.Function "maintain_step"}}(kind, max_rows, retention, failed_retention, skipped, said) AS s;
                EXIT WHEN more IS NOT TRUE;
            END LOOP;
            IF crowded THEN
                SELECT true INTO unfinished;
            END IF;
            IF said IS NOT NULL THEN
                RAISE WARNING '%', said;
                SELECT pg_catalog.concat_ws('; ', problem, said) INTO problem;
            END IF;
        END LOOP;
        EXIT WHEN NOT unfinished;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    BEGIN
        PERFORM {{.Note}};
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "purge"}}(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "maintain_step"}}(text, integer, interval, interval, uuid[], text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE {{.Function "maintain"}}(integer, interval, interval) FROM PUBLIC;
