{{- /* What a claim returns of a row that it has taken. */ -}}
{{define "claimed"}}t.id, t.due_at, t.created_at, t.attempts,
    t.max_attempts, t.headers::text AS headers, {{.Noted "t"}} AS noted
    {{- range .Columns}}{{if not .Internal}}, t.{{.Quoted}}{{end}}{{end}}
{{- end}}
