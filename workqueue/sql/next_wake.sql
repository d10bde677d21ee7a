-- When the table next needs attention: the earliest due time of a Ready row or the earliest end of a lease
{{- if .HasTopics}}, or of the
-- rest of a topic with a row for a probe{{end}}.
SELECT extract(epoch FROM min(w.at) - clock_timestamp())::float8 AS seconds, min(w.at) AS at
FROM (
    (SELECT min(r.due_at) AS at FROM {{.Table}} AS r WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0)
    UNION ALL
    (SELECT min(r.locked_until) FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now())
    {{- if .HasTopics}}
    UNION ALL
    (SELECT min(p.rests_until)
    FROM {{.Function "topic"}} AS p
    WHERE p.unavailable_since IS NOT NULL AND NOT p.paused
      AND EXISTS (
        SELECT FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0 AND r.due_at <= now()
            {{- range .TopicLane}} AND r.{{.Quoted}} = p.{{.Quoted}}{{end}} AND {{.TopicOf "r"}} = p.topic)
      AND NOT EXISTS (
        SELECT FROM {{.Table}} AS r
        WHERE r.id = p.probe AND r.owner_token = p.probe_token AND coalesce(r.status = 1, false)))
    {{- end}}
) AS w
HAVING min(w.at) IS NOT NULL
