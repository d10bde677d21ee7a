-- The lanes that have rows, one step of the claim index for each. Bounded: who has more lanes than that is told of the
-- rest by the announcement that comes in any case.
{{template "lanes" .}}
SELECT ARRAY[{{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}::text{{end}}] AS lane
FROM lane AS l
LIMIT 1000
