-- The ack of one row in the transaction of its effects: an error unless the claim holds the row, so that the effects
-- are rolled back, too. A repetition is one: what an earlier transaction did with this token has its effects.
CREATE FUNCTION {{.Function}}({{.Parameters}}) RETURNS {{.Returns}}
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $txwork$
DECLARE
    told text;
BEGIN
    {{- range .Checks}}
    {{.}}
    {{- end}}
    SELECT a.result INTO told FROM {{.Ack}}($1, ARRAY[$2]) AS a;
    IF told IS DISTINCT FROM 'done' THEN
        RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = 'id',
            MESSAGE = format('id is of a row that the claim does not hold: %s is %s', $2, told),
            HINT = 'Roll back: another worker has such a row, or it has ended.';
    END IF;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
