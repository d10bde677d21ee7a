-- The rows that have lost at least $1 leases alone: among the oldest due rows, the next rows to become due, and the
-- latest dead letters of the last $2 seconds. What producers wrote in these headers, if it is no small number, is 0.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT s.id, s.label, s.status, s.alone, s.together, s.last, s.attempts, s.max_attempts, s.last_error
FROM (
    SELECT r.id::text AS id, coalesce({{.Label}}, '') AS label, r.status,
           {{.Lost "r" "alone"}} AS alone, {{.Lost "r" "together"}} AS together,
           coalesce(r.headers ->> 'txwork-lost-at', '') AS last, r.attempts, r.max_attempts, r.last_error
    FROM (
        (SELECT r.*
        FROM {{.Table}} AS r
        WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL
            AND r.failed_at > now() - $2::float8 * interval '1 second'
        ORDER BY r.failed_at DESC, r.id DESC
        LIMIT $3::int)
        UNION ALL
        SELECT r.*
        FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
        CROSS JOIN LATERAL (
            {{template "due" .}}
        ) AS r
        UNION ALL
        SELECT r.*
        FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
        CROSS JOIN LATERAL (
            SELECT r.*
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL
              AND NOT r.waiting
              AND r.due_at > now()
              {{- template "of lane" .}}
        ) AS r
    ) AS r
) AS s
WHERE s.alone >= $1::bigint
ORDER BY s.alone DESC, s.last DESC
LIMIT $4::int
