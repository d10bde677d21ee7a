-- Deletes dead letters past their retention, a bounded batch at a time, oldest first. A cancelled row is not a dead
-- letter.
{{if not .Lists -}}
DELETE FROM {{.Table}} AS t
WHERE t.ctid = ANY (ARRAY(
{{end}}    SELECT r.{{.Wanted}}
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL
      AND r.cancelled_at IS NULL
      AND r.failed_at < now() - @age::interval{{.Among}}
    ORDER BY r.failed_at, r.id
    LIMIT @max_rows::int
    FOR UPDATE SKIP LOCKED{{if not .Lists}}))
RETURNING t.id{{end}}
