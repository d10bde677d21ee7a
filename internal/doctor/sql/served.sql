-- The lanes of the rows that workers settled in the last $1 seconds, among the last $2 such rows, and how many claims
-- these are of.
SELECT {{template "names" .}} AS lane, count(DISTINCT l.owner_token) AS claims
FROM (
    SELECT r.owner_token{{range .Lanes}}, r.{{.Quoted}} AS {{.Alias}}{{end}}
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at > now() - $1::float8 * interval '1 second'
    ORDER BY r.completed_at DESC
    LIMIT $2::int) AS l
WHERE l.owner_token IS NOT NULL -- a cancel of a row that nobody had claimed is no work
GROUP BY 1
