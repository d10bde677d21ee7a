-- Rows whose last attempt found no handler: of those that come again next, and of the last dead letters. The text is that of
-- the library.
SELECT s.label, min(s.last_error) AS error, count(*) AS rows, count(*) FILTER (WHERE s.failed) AS failed,
       (array_agg(s.id ORDER BY s.failed DESC))[1:3] AS ids, 0::float8 AS latest
FROM (
    (SELECT {{.Label}} AS label, r.id::text AS id, r.last_error, true AS failed
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL AND r.failed_at > now() - $1::float8 * interval '1 second'
    ORDER BY r.failed_at DESC, r.id DESC
    LIMIT $2::int)
    UNION ALL
    (SELECT w.label, w.id, w.last_error, false
    FROM ({{if .Lanes}}{{template "lane" .}}
        SELECT b.* FROM few AS l CROSS JOIN LATERAL (
            SELECT {{.Label}} AS label, r.id::text AS id, r.last_error
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at > now() - interval '1 minute'
              {{- range .Lanes}}
              AND r.{{.Quoted}} = l.{{.Alias}}
              {{- end}}
            ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
            LIMIT (SELECT greatest($2::int / greatest(count(*), 1), 20) FROM few)) AS b
        {{- else}}
        SELECT {{.Label}} AS label, r.id::text AS id, r.last_error
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL AND NOT r.waiting AND r.due_at > now() - interval '1 minute'
        ORDER BY r.due_at, r.id
        LIMIT $2::int
        {{- end}}) AS w)
) AS s
WHERE s.last_error LIKE '%no handler is registered for %'
GROUP BY s.label
ORDER BY rows DESC
LIMIT $3::int
