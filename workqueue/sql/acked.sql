{{- /* What an ack sets. */ -}}
{{define "acked"}}SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
    {{- if .Kept}},
    {{.Held}} = CASE WHEN t.{{.Kept}} & 4 > 0 THEN t.{{.Held}} END
    {{- end}}
{{- end}}
