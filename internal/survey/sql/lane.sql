{{define "lane"}}{{template "lanes" .}}, few AS MATERIALIZED (
    SELECT l.* FROM lane AS l LIMIT {{.MaxLanes}}
){{end}}
{{define "names" -}}
{{if .Lanes}}ARRAY[{{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}::text{{end}}]{{else}}'{}'{{end}}::text[]
{{- end}}
{{define "due"}}SELECT r.*
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at <= now()
          {{- template "of lane" .}}{{end}}
{{define "later"}}SELECT
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at > now()
          {{- template "of lane" .}}{{end}}
{{define "of lane"}}
          {{- range .Lanes}}
          AND r.{{.Quoted}} = l.{{.Alias}}
          {{- end}}
        ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
        LIMIT {{if .Lanes}}(
            SELECT greatest({{.MaxHead}} / greatest(count(*), 1), 50) FROM few){{else}}{{.MaxHead}}{{end}}{{end}}
