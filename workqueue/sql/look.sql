-- For each of several workers: whether a claim of its lanes, each from its cursor on, would find a row; in how many
-- seconds the next row is due that was not due yet when the worker last asked (see next_due); and the time of this
-- look. One statement replaces an empty claim and a next_due for each worker; it locks nothing.
SELECT l.worker, bool_or(d.found) AS found, now() AS asked_at,
    extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds, min(d.due_at) AS due_at
FROM unnest(@worker::int[], @asked_before::timestamptz[], @after_due::timestamptz[], @after_id::uuid[]
    {{- range .Lanes}}, @{{.Param}}::{{.Bind}}[]{{end}})
    AS l (worker, since, after_due, after_id{{range .Lanes}}, {{.Alias}}{{end}})
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at <= now()
          AND (r.due_at, r.id) > (l.after_due, l.after_id)
          {{- range .Lanes}}
          AND r.{{.Quoted}} = l.{{.Alias}}{{if .Cast}}::{{.Type}}{{end}}
          {{- end}}
    ) AS found, (
        SELECT r.due_at
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 0
          AND r.due_at > least(l.since, now())
          {{- range .Lanes}}
          AND r.{{.Quoted}} = l.{{.Alias}}{{if .Cast}}::{{.Type}}{{end}}
          {{- end}}
        ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
        LIMIT 1
    ) AS due_at
) AS d
GROUP BY l.worker
