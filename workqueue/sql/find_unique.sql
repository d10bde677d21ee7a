-- The rows that already hold the unique values which an insert found taken.
SELECT s.ord, t.id
FROM unnest({{range $i, $c := .Unique}}{{if $i}}, {{end}}@{{$c.Param}}::{{$c.Bind}}[]{{end}}) WITH ORDINALITY AS s ({{range .Unique}}{{.Alias}}, {{end}}ord)
JOIN {{.Table}} AS t ON {{range $i, $c := .Unique}}{{if $i}} AND {{end}}t.{{$c.Quoted}} = s.{{$c.Alias}}{{if $c.Cast}}::{{$c.Type}}{{end}}{{end}}
