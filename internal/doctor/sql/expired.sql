-- The claims that have rows with expired leases, the oldest first, among the rows that the template "running" reads.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT coalesce(r.owner_token::text, '') AS owner, count(*) AS rows,
       extract(epoch FROM now() - min(r.locked_until))::float8 AS ended,
       (array_agg(r.id::text ORDER BY r.locked_until))[1:3] AS ids, max(r.attempts) AS attempts,
       coalesce(min({{.Label}}), '') AS label
FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
CROSS JOIN LATERAL (
    {{template "running" .}}
) AS r
WHERE r.locked_until < now() - $1::float8 * interval '1 second'
GROUP BY r.owner_token
ORDER BY ended DESC
LIMIT $2::int
