-- {{.Title}}
{{- template "begin" .}}
-- Grants change rows of the catalogue that TRUNCATE and VACUUM FULL change, too: without these locks, one of both would
-- fail. They are not waited for, because others may wait for those that this transaction has.
DO $txwork$
BEGIN
    FOR attempt IN 1..30 LOOP
        BEGIN
            LOCK TABLE {{.List .Tables}} IN ACCESS SHARE MODE NOWAIT;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 30 THEN
                RAISE EXCEPTION 'a table is in use: %', SQLERRM
                    USING ERRCODE = 'lock_not_available', HINT = 'Run this SQL again when that has ended.';
            END IF;
            PERFORM pg_sleep(0.1);
        END;
    END LOOP;
END
$txwork$;
REVOKE ALL ON TABLE {{.List .Tables}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}}, {{.Role "operator"}};
{{- if not .Operators}}
GRANT {{if .ReadOnly}}SELECT{{else}}SELECT, INSERT, UPDATE, DELETE{{end}} ON TABLE {{.List .Tables}}
TO {{.Role "worker"}};
{{- end}}
GRANT SELECT ON TABLE {{.List .Tables}} TO {{.Role "viewer"}}, {{.Role "operator"}};
{{- if .Sequences}}
REVOKE ALL ON SEQUENCE {{.List .Sequences}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}}, {{.Role "operator"}};
{{- if not (or .ReadOnly .Operators)}}
GRANT USAGE ON SEQUENCE {{.List .Sequences}} TO {{.Role "worker"}};
{{- end}}
GRANT SELECT ON SEQUENCE {{.List .Sequences}} TO {{.Role "viewer"}}, {{.Role "operator"}};
{{- end}}
{{- if .Functions}}
-- Trigger functions run for every role that changes a row, without a right to execute them. The role needs the right to
-- execute only the functions that they call with its rights.
REVOKE ALL ON ROUTINE {{.List .Functions}}
FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}}, {{.Role "operator"}};
{{- if .Calls}}
GRANT EXECUTE ON ROUTINE {{.List .Calls}} TO {{.Role "worker"}};
{{- end}}
{{- end}}
{{- if .Writers}}
-- The functions through which any program writes rows: one for each type of payload. They run with the caller's rights.
{{- template "byname" .GrantWriters}}
{{- end}}
{{- if .Several}}
-- Functions of which there are several, with different parameters.
{{- template "byname" .GrantSeveral}}
{{- end}}
{{- if .Operated}}
-- What operators decide. Of cancel there may be several.
{{- template "byname" .GrantOperated}}
{{- end}}
{{- if .Seen}}
-- Policies of the side tables call it, or everybody.
GRANT EXECUTE ON FUNCTION {{.List .Seen}}
TO {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}}, {{.Role "operator"}};
{{- end}}
{{- define "byname"}}
DO $txwork$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT format(c.template, p.oid::regprocedure)
        FROM pg_proc AS p, (VALUES
            (1, 'REVOKE ALL ON FUNCTION %s FROM PUBLIC, {{.Role "producer"}}, {{.Role "worker"}}, {{.Role "viewer"}}, '
                '{{.Role "operator"}}'),
            (2, 'GRANT EXECUTE ON FUNCTION %s TO {{.To}}')) AS c (n, template)
        WHERE p.pronamespace = '"{{.Schema}}"'::regnamespace AND p.proname = ANY (ARRAY[{{.Names .Functions}}]::name[])
        ORDER BY p.oid, c.n
    LOOP
        EXECUTE command;
    END LOOP;
END
$txwork$;
{{- end}}
