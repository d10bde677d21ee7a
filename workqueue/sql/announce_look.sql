-- For each lane, the rows that are due after a given place: the last one, claimed or not, where the next look begins,
-- and the first Ready one. Each reads only one row as long as claims keep up. Both use the claim index.
SELECT l.ord::int AS ord,
       (extract(epoch FROM f.due_at) * 1000000)::bigint AS first,
       (extract(epoch FROM b.due_at) * 1000000)::bigint AS last_due,
       b.id::text AS last_id
FROM unnest(@after_due::text::timestamptz[], @after_id::text::uuid[]
    {{- range .Lanes}}, @lane_{{.Name}}::text::text[]{{end}})
    WITH ORDINALITY AS l (after_due, after_id{{range .Lanes}}, {{.Alias}}{{end}}, ord)
CROSS JOIN LATERAL (
    SELECT r.due_at, r.id
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.due_at <= now()
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
      {{- range .Lanes}}
      AND r.{{.Quoted}} = l.{{.Alias}}::{{.Type}}
      {{- end}}
    ORDER BY {{range .Lanes}}r.{{.Quoted}} DESC, {{end}}r.due_at DESC, r.id DESC
    LIMIT 1
) AS b
LEFT JOIN LATERAL (
    SELECT r.due_at
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at <= b.due_at
      AND (r.due_at, r.id) > (l.after_due, l.after_id)
      {{- range .Lanes}}
      AND r.{{.Quoted}} = l.{{.Alias}}::{{.Type}}
      {{- end}}
    ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
    LIMIT 1
) AS f ON true
