-- When the table next needs attention: the earliest due time of a Ready row or the earliest end of a lease
{{- if .HasTopics}},
-- of the rest of a topic with a row for a probe, or the due time of a row aside whose topic is open{{end}}.
SELECT extract(epoch FROM min(w.at) - clock_timestamp())::float8 AS seconds, min(w.at) AS at
FROM (
    (SELECT min(r.due_at) AS at FROM {{.Table}} AS r WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 0)
    UNION ALL
    (SELECT min(r.locked_until) FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now())
    {{- if .HasTopics}}
    UNION ALL
    (WITH RECURSIVE has AS (
        (SELECT {{range .TopicLane}}r.{{.Quoted}}, {{end}}{{.TopicOf "r"}} AS topic, r.due_at
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
        ORDER BY {{.AsideOrder "r"}}
        LIMIT 1)
        UNION ALL
        SELECT n.*
        FROM has AS h
        CROSS JOIN LATERAL (
            SELECT {{range .TopicLane}}r.{{.Quoted}}, {{end}}{{.TopicOf "r"}} AS topic, r.due_at
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL AND r.aside AND r.status = 0
              AND ({{range .TopicLane}}r.{{.Quoted}}, {{end}}{{.TopicOf "r"}})
                  > ({{range .TopicLane}}h.{{.Quoted}}, {{end}}h.topic)
            ORDER BY {{.AsideOrder "r"}}
            LIMIT 1) AS n
    )
    SELECT min(CASE
        WHEN p.unavailable_since IS NULL THEN h.due_at
        WHEN f.state = 'ended' OR {{.RestIsOver "p" "now()"}} THEN greatest(now(), h.due_at)
        ELSE greatest(p.rests_until, h.due_at) END)
    FROM has AS h
    LEFT JOIN {{.Function "topic"}} AS p
        ON {{range .TopicLane}}p.{{.Quoted}} = h.{{.Quoted}} AND {{end}}p.topic = h.topic
    CROSS JOIN LATERAL (SELECT {{template "found_out" .}} AS state) AS f
    WHERE p.paused IS NOT TRUE
      AND (p.unavailable_since IS NULL OR f.state <> 'runs' AND NOT ({{.HidesTopics}})))
    {{- end}}
) AS w
HAVING min(w.at) IS NOT NULL
