-- The claims that hold rows, those with expired leases first, among the rows that the template "running" reads.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT r.owner_token::text AS owner, count(*) AS rows, count(*) FILTER (WHERE r.locked_until < now()) AS expired,
       extract(epoch FROM min(r.locked_until) - now())::float8 AS ends, coalesce(min({{.Label}}), '') AS label,
       count(DISTINCT {{.Label}}) AS labels,
       coalesce(max({{.RunningFor "r"}}), 0)::float8 AS longest,
       count(*) OVER () AS claims
FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
CROSS JOIN LATERAL (
    {{template "running" .}}
) AS r
GROUP BY r.owner_token
ORDER BY ends
LIMIT $1::int
