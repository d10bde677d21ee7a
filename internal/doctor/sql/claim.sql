-- The read of a claim, for EXPLAIN only. OFFSET 0 hides the lanes' values from the planner, as parameters do in a
-- claim.
SELECT c.ctid
FROM (SELECT {{range $i, $l := .Lanes}}{{if $i}}, {{end}}(SELECT NULL::{{.Type}} OFFSET 0) AS {{.Alias}}{{end}}) AS l
CROSS JOIN LATERAL (
    SELECT r.ctid
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at <= now()
      AND (r.due_at, r.id) > ('-infinity'::timestamptz, '00000000-0000-0000-0000-000000000000'::uuid)
      {{- range .Lanes}}
      AND r.{{.Quoted}} = l.{{.Alias}}
      {{- end}}
    ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
    LIMIT 20) AS c
