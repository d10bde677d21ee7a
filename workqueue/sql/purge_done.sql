-- Deletes done and cancelled rows past their retention, a bounded batch at a time, oldest first.
{{if not .Lists -}}
DELETE FROM {{.Table}} AS t
WHERE t.ctid = ANY (ARRAY(
{{end}}    SELECT r.{{.Wanted}}
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NOT NULL
      AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at < now() - @age::interval{{.Among}}
    ORDER BY r.completed_at
    LIMIT @max_rows::int
    FOR UPDATE SKIP LOCKED{{if not .Lists}}))
RETURNING t.id{{end}}
