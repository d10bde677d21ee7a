-- The dead letters of the last $1 seconds and, if asked for, the rows that will be retried, grouped by label and by the
-- first line of their error, with numbers and ids masked. Of each at most $2 are read; cancelled rows are passed over
-- without using up that bound, up to $4 rows in all.
SELECT s.label, s.error, count(*) FILTER (WHERE s.failed) AS failed, count(*) FILTER (WHERE NOT s.failed) AS retrying,
       coalesce(extract(epoch FROM now() - max(s.at)), 0)::float8 AS latest,
       (array_agg(s.id ORDER BY s.failed DESC, s.at DESC))[1] AS id, count(*) OVER () AS groups,
       coalesce(array_agg(extract(epoch FROM now() - s.at)::float8) FILTER (WHERE s.failed), '{}') AS ages,
       sum(count(*) FILTER (WHERE s.failed)) OVER ()::bigint AS dead
FROM (
    (SELECT coalesce({{.Label}}, '') AS label, {{template "error"}} AS error, true AS failed, r.failed_at AS at,
        r.id::text AS id
    FROM (
        SELECT r.*
        FROM {{.Table}} AS r
        WHERE r.failed_at IS NOT NULL AND r.failed_at > now() - $1::float8 * interval '1 second'
        ORDER BY r.failed_at DESC, r.id DESC
        LIMIT $4::int) AS r
    WHERE r.cancelled_at IS NULL
    LIMIT $2::int)
    {{- if .Live}}
    UNION ALL
    (SELECT w.label, w.error, false, NULL, w.id
    FROM ({{if .Lanes}}{{template "lane" .}}
        SELECT b.* FROM few AS l CROSS JOIN LATERAL (
            SELECT coalesce({{.Label}}, '') AS label, {{template "error"}} AS error, r.last_error, r.id::text AS id
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL AND NOT r.waiting
              {{- range .Lanes}}
              AND r.{{.Quoted}} = l.{{.Alias}}
              {{- end}}
            ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
            LIMIT (SELECT greatest($2::int / greatest(count(*), 1), 20) FROM few)) AS b
        {{- else}}
        SELECT coalesce({{.Label}}, '') AS label, {{template "error"}} AS error, r.last_error, r.id::text AS id
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting
        ORDER BY r.due_at, r.id
        LIMIT $2::int
        {{- end}}) AS w
    WHERE w.last_error IS NOT NULL)
    {{- end}}
) AS s
GROUP BY s.label, s.error
ORDER BY failed DESC, retrying DESC, s.label, s.error
LIMIT $3::int
{{define "error"}}regexp_replace(left(split_part(coalesce(r.last_error, ''), E'\n', 1), 160),
               '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9]+', '…', 'g'){{end}}
