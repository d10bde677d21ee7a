-- Settles rows with one outcome, in the order of their ids, which are sorted and of which none is repeated. It returns
-- the result of each row that did not become what is usual, see settle_one.sql. All settles of the other functions are
-- made here, so each statement is there once. With strict, ids that the claim does not hold are an error.
CREATE FUNCTION {{.Function}}({{.Parameters}}) RETURNS {{.Returns}}
LANGUAGE plpgsql
{{.Settings}}
AS $txwork$
#variable_conflict use_column
<<own>>
DECLARE
    refused record;
    changed uuid[];
    answers jsonb := '{}';
BEGIN
    {{- range .Checks}}
    {{.}}
    {{- end}}
    {{.IdleBound}}
    CASE $1
    {{- range .Outcomes}}
    WHEN '{{.Name}}' THEN
        {{- with .One}}
        IF $3[1] = ALL ($3) THEN -- the rows are of one claim
        {{template "settled" .}}
        ELSE
        {{- end}}
        {{template "settled" .}}
        {{- if .One}}
        END IF;
        {{- end}}
    {{- end}}
    END CASE;
    {{template "strict" .}}
    RETURN own.answers;
END
$txwork$;

REVOKE ALL ON FUNCTION {{.Function}}({{.Types}}) FROM PUBLIC;
{{- /* Settles the rows .IDs, whose ids are sorted, and adds to own.answers what is not the usual result. The rows that
it did not change are looked at once more, in the snapshot of a later statement. */ -}}
{{define "settled" -}}
{{.Statement}}
        SELECT coalesce(array_agg(c.id), '{}')
            {{- if .Word}},
            own.answers
                || coalesce(jsonb_object_agg(c.id, {{.Word}}) FILTER (WHERE {{.Word}} <> '{{.Usual}}'), '{}')
            {{- end}}
            {{- if .Tells}}, min(c.locked_until){{end}}
        INTO own.changed{{if .Word}}, own.answers{{end}}{{if .Tells}}, own.until{{end}}
        FROM settled AS c;
        IF cardinality(own.changed) < cardinality({{.IDs}}) THEN
            SELECT jsonb_object_agg(k.id, CASE WHEN NOT k.found THEN 'gone'
                    WHEN k.ours AND k.status IN ({{.LeadsTo}}) THEN '{{.Again}}' ELSE 'lost' END)
                || coalesce((SELECT jsonb_object_agg(u.id, '{{.Usual}}') FROM unnest(own.changed) AS u (id)), '{}')
                || own.answers
            INTO own.answers
            FROM (
{{.Classify}}) AS k;
        END IF;
{{- end}}
{{- define "strict" -}}
IF {{.StrictArgument}} THEN
        SELECT count(*) AS n, min(a.key || ' is ' || a.value) AS sample INTO own.refused
        FROM jsonb_each_text(own.answers) AS a
        WHERE a.value IN ('lost', 'gone', 'repeated');
        IF own.refused.n > 0 THEN
            RAISE EXCEPTION USING ERRCODE = 'TXL01', COLUMN = '{{.Rows}}',
                MESSAGE = format('{{.Rows}} names %s rows that the claim does not hold: %s', own.refused.n,
                    own.refused.sample),
                HINT = 'Roll back: another worker has such a row, or it has ended.';
        END IF;
    END IF;
{{- end}}
