-- Whether there are rows behind those that deadly.sql, poison.sql and unknown.sql read: due rows, and dead letters of
-- the last $1 seconds behind the latest $2.
{{define "behind"}}
        {{- template "in lane" .}}
        OFFSET {{if .Lanes}}(
            SELECT greatest({{.MaxHead}} / greatest(count(*), 1), 50) FROM few){{else}}{{.MaxHead}}{{end}}
        LIMIT 1{{end}}
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT EXISTS (
    SELECT
    FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
    CROSS JOIN LATERAL (
        SELECT
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at <= now()
          {{- template "behind" .}}) AS r) AS due,
    EXISTS (
    SELECT
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL AND r.failed_at > now() - $1::float8 * interval '1 second'
    ORDER BY r.failed_at DESC, r.id DESC
    OFFSET $2::int
    LIMIT 1) AS dead
