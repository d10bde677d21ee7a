-- Nothing -> Ready, in the caller's transaction: one row, as Table.Insert writes it, for programs in any language. It
-- runs with its caller's rights, so the rights on the table's columns and row-level security apply as to an INSERT.
--
-- An id that is not given is a UUID version 7, so that keys grow with time. For a row with unique values that are
-- taken, it returns the row that is there. If that is deleted meanwhile, the values are free, and it tries again.
--
-- #variable_conflict: the names in ON CONFLICT are columns. Parameters are written as $1, $2, ....
CREATE FUNCTION {{.Function}}({{.Parameters}})
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
{{- if .Unique}}
SET enable_seqscan = off
SET enable_bitmapscan = off
{{- end}}
AS $txwork$
#variable_conflict use_column
DECLARE
    own CONSTANT uuid := coalesce({{.ID}}, {{newID}});
BEGIN
    {{- range .Checks}}
    {{.}}
    {{- end}}
    {{- with .Begin}}
    {{.}}
    {{- end}}
    {{- if .Key}}
    IF ({{.Key}}) IS NOT NULL THEN
        PERFORM WHERE {{.RunsTriggers}};
    END IF;
    {{- end}}
    duplicate := false;
    {{- if and .Held .Unique}}
    IF NOT ({{.Held}}) THEN
        id := own;
        {{- template "written" .}};
        IF NOT FOUND THEN
            {{- template "suppressed" .}}
        END IF;
        RETURN;
    END IF;
    {{- end}}
    {{- if .Unique}}
    FOR attempt IN 1..{{.MaxVanished}} LOOP
        {{- if .Change}}
{{.Change}}
        {{- end}}
        id := own;
        {{- template "written" .}}
        ON CONFLICT ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}})
            WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}} DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        {{- if not .Change}}
        SELECT t.id INTO id
        FROM {{.Table}} AS t
        WHERE {{range $i, $f := .UniqueValues}}{{if $i}} AND {{end}}t.{{$f.Quoted}} = ({{$f.Value}}){{end}};
        IF FOUND THEN
            duplicate := true;
            {{- with .Found}}
{{.}}
            {{- end}}
            RETURN;
        END IF;
        {{- end}}
    END LOOP;
    {{- template "suppressed" .}}
    {{- else}}
    id := own;
    {{- template "written" .}};
    IF NOT FOUND THEN
        {{- template "suppressed" .}}
    END IF;
    {{- end}}
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
{{- define "written"}}
        INSERT INTO {{.Table}} (id{{range .Fields}}, {{.Quoted}}{{end}})
        VALUES (id
            {{- range .Fields}},
            {{.Value}}
            {{- end}})
{{- end}}
{{- define "suppressed"}}
            RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
                MESSAGE = '{{.TableName}} took a row and stored none: does a trigger, a rule or a policy of the '
                    'table suppress it, or hide the row that has its unique values?';
{{- end}}
