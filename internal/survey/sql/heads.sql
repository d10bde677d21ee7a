-- Counts the due rows at the head of each lane. Reads a bounded number of rows in all, by the claim index.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT {{template "names" .}} AS lane, h.*
FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS seen,
           count(*) FILTER (WHERE s.status = 0) AS ready,
           count(*) FILTER (WHERE s.status = 1) AS running,
           count(*) FILTER (WHERE s.status = 1 AND s.locked_until < now() - $1::float8 * interval '1 second')
               AS expired,
           coalesce(extract(epoch FROM now() - min(s.due_at) FILTER (WHERE s.status = 0)), 0)::float8 AS oldest_ready,
           coalesce(extract(epoch FROM now() - min(s.locked_until) FILTER (WHERE s.status = 1)), 0)::float8
               AS oldest_expired,
           coalesce(max({{.RunningFor "s"}}) FILTER (WHERE {{template "held" "s"}}), 0)::float8 AS longest,
           count(*) FILTER (WHERE {{template "held" "s"}} AND {{.RunningFor "s"}} > $2::float8) AS long,
           count(*) FILTER (WHERE {{template "held" "s"}} AND {{.RunningFor "s"}} > {{.RunningWithin "s" "$3::float8"}})
               AS overdue
    FROM (
        {{template "due" .}}
    ) AS s
) AS h
