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
{{define "running"}}SELECT s.*
        FROM (
            SELECT r.*
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL
              AND NOT r.waiting
              AND r.due_at <= now()
              {{- template "in lane" .}}
            LIMIT {{if .Lanes}}(
                SELECT greatest({{.MaxRunning}} / greatest(count(*), 1), {{.LeastShare}})
                FROM few){{else}}{{.MaxRunning}}{{end}}) AS s
        WHERE s.status = 1{{end}}
{{- /* A row in progress whose lease has not expired: somebody renews it. */ -}}
{{define "held"}}{{.}}.status = 1 AND {{.}}.locked_until >= now(){{end}}
{{define "later"}}SELECT
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at > now()
          {{- template "of lane" .}}{{end}}
{{define "in lane"}}
          {{- range .Lanes}}
          AND r.{{.Quoted}} = l.{{.Alias}}
          {{- end}}
        ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id{{end}}
{{define "of lane"}}
        {{- template "in lane" .}}
        LIMIT {{if .LaneRows}}{{.LaneRows}}{{else if .Lanes}}(
            SELECT greatest({{.MaxHead}} / greatest(count(*), 1), {{.LeastShare}})
            FROM few){{else}}{{.MaxHead}}{{end}}{{end}}
