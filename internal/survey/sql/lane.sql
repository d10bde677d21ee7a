{{define "lane"}}WITH RECURSIVE lane AS (
    (SELECT {{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}} AS {{.Alias}}{{end}}
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting
    ORDER BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}}
    LIMIT 1)
    UNION ALL
    SELECT n.*
    FROM lane AS l
    CROSS JOIN LATERAL (
        SELECT {{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}}
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting
          AND ({{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}}) > ({{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}{{end}})
        ORDER BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}}
        LIMIT 1
    ) AS n
), few AS MATERIALIZED (
    SELECT l.* FROM lane AS l LIMIT {{.MaxLanes}}
){{end}}
{{define "names"}}{{if .Lanes}}ARRAY[{{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}::text{{end}}]{{else}}'{}'{{end}}::text[]{{end}}
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
        LIMIT {{if .Lanes}}(SELECT greatest({{.MaxHead}} / greatest(count(*), 1), 50) FROM few){{else}}{{.MaxHead}}{{end}}{{end}}
