-- Applies the notes that triggers have written, and returns how many it applied. Workers written in SQL call it before
-- they claim.
CREATE FUNCTION {{.Function "fold"}}(max_notes integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    notes integer := 0;
BEGIN
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_notes must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    {{- range .FoldFunctions}}
    notes := notes + coalesce((SELECT f.folded FROM {{.}}($1, '-infinity') AS f), 0);
    {{- end}}
    RETURN notes;
END
$txwork$;

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
    IF ($1 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF least($2, $3) < interval '0' THEN
        RAISE EXCEPTION 'a retention must not be negative; NULL keeps all' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH purged_done AS (
{{.Purged "purge_done" "$2"}}
    ), purged_failed AS (
{{.Purged "purge_failed" "$3"}}
    )
    SELECT (SELECT count(*)::integer FROM purged_done), (SELECT count(*)::integer FROM purged_failed);
END
$txwork$;

-- One transaction of one kind of maintenance. It returns an error instead of raising it, so that the other kinds still
-- get their turn.
CREATE FUNCTION {{.Function "maintain_step"}}(
    kind text, most integer, retention interval, failed_retention interval, OUT more boolean, OUT problem text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $txwork$
BEGIN
    IF ($2 >= 1) IS NOT TRUE THEN
        RAISE EXCEPTION 'max_rows must be at least 1' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        CASE $1
        {{- range .Maintenance}}
        WHEN '{{.Kind}}' THEN
            more := ({{.Query}}) > 0;
        {{- end}}
        END CASE;
    EXCEPTION WHEN others THEN
        more := false;
        problem := $1 || ': ' || SQLERRM;
    END;
END
$txwork$;

-- All maintenance of the table: each kind until nothing is left, in at most {{.MaxSteps}} transactions. It commits, so
-- a call cannot be part of a transaction, and it cannot pin a search_path: every name is qualified instead, and no
-- operator is used. At the end it records when it ran, for the check that looks for tables without maintenance. It
-- skips that if the schema has no table for the record, such as a schema with only an application's own tables, or if
-- the role may not write to it.
CREATE PROCEDURE {{.Function "maintain"}}(
    max_rows integer DEFAULT 1000,
    retention interval DEFAULT {{.DoneAge}},
    failed_retention interval DEFAULT {{.FailedAge}}
)
LANGUAGE plpgsql
AS $txwork$
DECLARE
    kind text;
    more boolean;
    said text;
    problem text;
BEGIN
    FOREACH kind IN ARRAY ARRAY[{{range $i, $m := .Maintenance}}{{if $i}}, {{end}}'{{$m.Kind}}'{{end}}] LOOP
        FOR step IN 1..{{.MaxSteps}} LOOP
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
            SELECT s.more, s.problem INTO more, said
            FROM {{.Function "maintain_step"}}(kind, max_rows, retention, failed_retention) AS s;
            EXIT WHEN more IS NOT TRUE;
        END LOOP;
        IF said IS NOT NULL THEN
            RAISE WARNING '%', said;
            SELECT said INTO problem;
        END IF;
    END LOOP;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'a part of the maintenance failed, the rest is done: %', problem;
    END IF;
    BEGIN
        PERFORM {{.Note}};
    EXCEPTION WHEN undefined_function OR insufficient_privilege THEN
        NULL;
    END;
    COMMIT;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function "fold"}}(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "purge"}}(integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION {{.Function "maintain_step"}}(text, integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON PROCEDURE {{.Function "maintain"}}(integer, interval, interval) FROM PUBLIC;
