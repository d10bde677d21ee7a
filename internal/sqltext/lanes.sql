WITH RECURSIVE lane AS (
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
          AND ({{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}})
            > ({{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}{{end}})
        ORDER BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}r.{{.Quoted}}{{end}}
        LIMIT 1
    ) AS n
)