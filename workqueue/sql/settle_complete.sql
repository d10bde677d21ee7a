-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION {{.Function}}({{.Parameters}}) RETURNS {{.Returns}}
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
BEGIN
    {{- range .Checks}}
    {{.}}
    {{- end}}
    PERFORM FROM {{.Ack}}($1, ARRAY[$2], true);
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
