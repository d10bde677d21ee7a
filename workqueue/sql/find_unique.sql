-- The existing rows with the unique values that an insert conflicted with.
SELECT s.ord, t.id
FROM unnest({{range $i, $c := .Unique}}{{if $i}}, {{end}}@{{$c.Param}}::{{$c.Bind}}[]{{end}})
    WITH ORDINALITY AS s ({{range .Unique}}{{.Alias}}, {{end}}ord)
JOIN {{.Table}} AS t ON {{range $i, $c := .Unique}}{{if $i}} AND {{end -}}
    t.{{$c.Quoted}} = s.{{$c.Alias}}{{if $c.Cast}}::{{$c.Type}}{{end}}{{end}}
