-- The lanes that have rows, found by one step of the claim index for each. The number is bounded; rows of further lanes
-- are covered by the general announcement, which is sent in any case.
{{template "lanes" .}}
SELECT ARRAY[{{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}::text{{end}}] AS lane
FROM lane AS l
LIMIT 1000
