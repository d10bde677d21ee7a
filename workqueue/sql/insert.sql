-- Nothing -> Ready, in the caller's transaction. A due time in the past means now, by the database's
-- clock. Rows come as one array a column: one statement, however many rows. The table's trigger
-- announces the insert once a transaction.
INSERT INTO {{.Table}} (id, due_at, max_attempts, waiting, headers, retry{{range .Columns}}, {{.Quoted}}{{end}})
SELECT s.id, greatest(s.due_at, now()), coalesce(s.max_attempts, {{.MaxAttempts}}), s.waiting, s.headers::jsonb, s.retry::jsonb{{range .Columns}}, s.{{.Alias}}{{if .Cast}}::{{.Type}}{{end}}{{end}}
FROM unnest(
    @ids::uuid[], @due_at::timestamptz[], @max_attempts::int[], @waiting::boolean[], @headers::text[], @retry::text[]{{range .Columns}},
    @{{.Param}}::{{.Bind}}[]{{end}}
) WITH ORDINALITY AS s (id, due_at, max_attempts, waiting, headers, retry{{range .Columns}}, {{.Alias}}{{end}}, ord)
ORDER BY s.ord
{{- if .Unique}}
ON CONFLICT ({{range $i, $c := .Unique}}{{if $i}}, {{end}}{{$c.Quoted}}{{end}}) WHERE {{range $i, $c := .Unique}}{{if $i}} AND {{end}}{{$c.Quoted}} IS NOT NULL{{end}} DO NOTHING
{{- end}}
RETURNING id
