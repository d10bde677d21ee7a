-- Nothing -> Ready, in the caller's transaction. A due time in the past means now, by the database's
-- clock. One statement, however many rows. What all rows have in common is one parameter, what no row has
-- is none, and the rest comes as one array a column. The table's trigger announces the insert once a
-- transaction.
--
-- Only rows that hold unique values ask for conflicts: such a row is written to the log in two steps.
INSERT INTO {{.Table}} (id{{range .Fields}}, {{.Quoted}}{{end}})
SELECT {{if .One}}@id::uuid{{else}}s.id{{end}}{{range .Fields}}, {{.Value}}{{end}}
{{- if not .One}}
FROM unnest(
    @ids::uuid[]{{range .Varying}},
    @{{.Param}}::{{.Bind}}[]{{end}}
) WITH ORDINALITY AS s (id{{range .Varying}}, {{.Alias}}{{end}}, ord)
ORDER BY s.ord
{{- end}}
{{- if .Guarded}}
ON CONFLICT ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}}) WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}} DO NOTHING
RETURNING id
{{- end}}
