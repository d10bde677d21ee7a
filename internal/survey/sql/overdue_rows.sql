-- The rows that have run for longer than they should, the longest first, among the rows that the template "running"
-- reads. $1 is for how many seconds a row may run if its worker did not say.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT r.id::text AS id, coalesce({{.Label}}, '') AS label, {{template "names" .}} AS lane,
       r.owner_token::text AS owner, r.attempts, {{.RunningFor "r"}} AS ran,
       {{.RunningWithin "r" "$1::float8"}} AS within,
       r.cancelled_at IS NOT NULL AS cancelled, count(*) OVER () AS rows
FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
CROSS JOIN LATERAL (
    {{template "running" .}}
) AS r
WHERE {{template "held" "r"}} AND {{.RunningFor "r"}} > {{.RunningWithin "r" "$1::float8"}}
ORDER BY ran DESC
LIMIT $2::int
