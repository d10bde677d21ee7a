-- The same for a payload of another type, which is stored as text in UTF-8.
CREATE FUNCTION {{.Function}}({{.Parameters}})
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
#variable_conflict use_column
BEGIN
    SELECT w.id, w.duplicate{{range .Results}}, w.{{.}}{{end}}
    INTO id, duplicate{{range .Results}}, {{.}}{{end}}
    FROM {{.Function}}({{.Call}}) AS w;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
