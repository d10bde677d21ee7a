-- In how many seconds the next row of the lanes is due that was not due yet when the worker last asked (@since), and
-- the time of this question. @since lies before the worker's last claim, so this finds a row that has become due since
-- that claim; it finds a row that the claim skipped because it was locked only once. The scan starts at @since in the
-- claim index, so neither the backlog nor dead entries before it cost anything.
SELECT {{.Now}} AS asked_at, extract(epoch FROM min(d.due_at) - clock_timestamp())::float8 AS seconds,
    min(d.due_at) AS due_at
FROM {{if .Lanes}}unnest({{range $i, $l := .Lanes}}{{if $i}}, {{end}}@{{$l.Param}}::{{$l.Bind}}[]{{end}})
    AS l ({{range $i, $l := .Lanes}}{{if $i}}, {{end}}{{$l.Alias}}{{end}}){{else}}(SELECT) AS l{{end}}
CROSS JOIN LATERAL (
    SELECT r.due_at
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 0
      AND r.due_at > least(@since::timestamptz, {{.Now}})
      {{- range .Lanes}}
      AND r.{{.Quoted}} = l.{{.Alias}}{{if .Cast}}::{{.Type}}{{end}}
      {{- end}}
    ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
    LIMIT 1
) AS d
