{{- /* The one place that decides between another attempt and the dead letter. Abandon, snooze and the reaper all use
it, so they cannot disagree. */ -}}
{{define "retry_or_fail" -}}
    status = CASE WHEN {{.Spent}} THEN 3 ELSE 0 END,
    {{- if .Due}}
    due_at = CASE WHEN {{.Spent}} THEN t.due_at ELSE {{.Due}} END,
    {{- end}}
    completed_at = CASE WHEN {{.Spent}} THEN clock_timestamp() END,
    failed_at = CASE WHEN {{.Spent}} THEN clock_timestamp() END,
    locked_until = NULL,
{{- end}}
