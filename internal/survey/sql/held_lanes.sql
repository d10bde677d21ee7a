-- The number of waiting rows by the first column of the lane, among the first $1 of them.
{{$lane := index .Lanes 0 -}}
SELECT w.name, count(*) AS rows
FROM (
    SELECT r.{{$lane.Quoted}}::text AS name
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL AND r.waiting
    ORDER BY r.id
    LIMIT $1::int) AS w
GROUP BY w.name
