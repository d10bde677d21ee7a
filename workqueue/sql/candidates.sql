{{- /* The rows of the lanes that a claim takes, in its order, locked. A fetch needs their places, too, and claims by
topic see more of each row, to sort out those that may not start now. */ -}}
{{define "candidates"}}
    SELECT c.ctid{{if .ByTopic}}, c.held{{end}}{{if .Places}}, l.ord::integer AS ord, c.due_at, c.id{{end}}
    FROM unnest(@after_due::timestamptz[], @after_id::uuid[]{{range .Lanes}}, @{{.Param}}::{{.Bind}}[]{{end}})
        {{if .Places}}WITH ORDINALITY {{end}}AS l (after_due, after_id{{range .Lanes}}, {{.Alias}}{{end}}
        {{- if .Places}}, ord{{end}})
    CROSS JOIN LATERAL (
        SELECT r.ctid
            {{- if .ByTopic}}, {{.TopicOf "r"}} = ANY (own.held) AS held{{end}}{{if .Places}}, r.due_at, r.id{{end}}
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= {{.Now}}
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          {{- range .Lanes}}
          AND r.{{.Quoted}} = l.{{.Alias}}{{if .Cast}}::{{.Type}}{{end}}
          {{- end}}
        ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
        LIMIT @batch_size::int
        FOR NO KEY UPDATE SKIP LOCKED) AS c
    LIMIT @batch_size::int
{{- end}}
