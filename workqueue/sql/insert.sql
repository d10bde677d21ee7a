-- Nothing -> Ready, in the caller's transaction. A due time in the past means now, by the database's clock. One
-- statement inserts any number of rows. A value that all rows share is one parameter, and each other column is
-- one array. A column of the domain that no row sets is left out: a producer may have no right to it. The table's
-- trigger announces the insert once per transaction.
--
-- <table>_enqueue_many has it, too, with an array for each parameter.
--
-- For a row with a key, a session in which the table's triggers do not run is refused: the row would run at once.
--
-- ON CONFLICT is added only for rows with unique values, because a speculative insertion writes to the log twice. For
-- rows that are written once, it names no index: a row with the same id is a duplicate, too.
INSERT INTO {{.Table}} (id{{range .Fields}}, {{.Quoted}}{{end}})
SELECT {{if .One}}@id::uuid{{else}}s.id{{end}}{{range .Fields}}, {{.Value}}{{end}}
{{- if not .One}}
FROM unnest(
    @ids::uuid[]{{range .Varying}},
    @{{.Param}}::{{.Bind}}[]{{end}}
) WITH ORDINALITY AS s (id{{range .Varying}}, {{.Alias}}{{end}}, ord)
{{- end}}
{{- with .Condition}}
WHERE {{.}}
{{- end}}
{{- if not .One}}
ORDER BY {{range .Order}}{{.}}, {{end}}s.ord
{{- end}}
{{- if .Once}}
ON CONFLICT DO NOTHING
RETURNING id
{{- else if .Guarded}}
ON CONFLICT ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}})
    WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}} DO NOTHING
RETURNING id
{{- else if .Returns}}
RETURNING id
{{- end}}
