-- How long until the next row that is not due yet. Starts at now() in the claim index, so neither the
-- backlog nor dead entries behind it cost anything.
SELECT extract(epoch FROM r.due_at - clock_timestamp())::float8 AS seconds, r.due_at
FROM {{.Table}} AS r
WHERE r.completed_at IS NULL
  AND r.status = 0
  AND r.due_at > now()
  {{- range .Lanes}}
  AND r.{{.Quoted}} = @{{.Param}}::{{.Type}}
  {{- end}}
ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
LIMIT 1
