CREATE FUNCTION {{.Function}}({{.Parameters}}) RETURNS {{.Returns}}
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
BEGIN
    {{- range .Checks}}
    {{.}}
    {{- end}}
    RETURN QUERY
{{.Body}};
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
