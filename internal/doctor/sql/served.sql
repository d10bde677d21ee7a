-- The lanes of the rows that were done or cancelled in the last $1 seconds, among the last $2 such rows.
SELECT DISTINCT {{with .Lanes}}s.c0{{else}}''::text{{end}} AS name
FROM (
    SELECT {{with .Lanes}}r.{{(index . 0).Quoted}}::text AS c0{{else}}r.id{{end}}
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)
      AND r.completed_at > now() - $1::float8 * interval '1 second'
    ORDER BY r.completed_at DESC
    LIMIT $2::int) AS s
