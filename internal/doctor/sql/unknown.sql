-- Rows whose last attempt found no handler: among the oldest due rows, the next rows to become due, and the latest dead
-- letters. The library writes the error text. A row that is retried is due now or later in turn, and counts in both
-- states. A row that is left to other workers is due again after some seconds, and its error says since when it has
-- been put back. It counts after $4 seconds.
{{if .Lanes}}{{template "lane" .}}{{end}}
SELECT s.subscription, s.label, min(s.last_error) AS error, count(*) AS rows,
       count(*) FILTER (WHERE s.failed) AS failed,
       (array_agg(s.id ORDER BY s.failed DESC))[1:3] AS ids, 0::float8 AS latest,
       count(s.since) FILTER (WHERE NOT s.failed) AS left, coalesce(min(s.since), '') AS since
FROM (
    SELECT u.subscription, u.label, u.id, u.last_error, u.failed,
           substring(u.last_error FROM ' since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$') AS since
    FROM (
        (SELECT {{.Subscription}} AS subscription, {{.Label}} AS label, r.id::text AS id, r.last_error, true AS failed
        FROM {{.Table}} AS r
        WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL
          AND r.failed_at > now() - $1::float8 * interval '1 second'
        ORDER BY r.failed_at DESC, r.id DESC
        LIMIT $2::int)
        UNION ALL
        SELECT {{.Subscription}}, {{.Label}}, r.id::text, r.last_error, false
        FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
        CROSS JOIN LATERAL (
            {{template "due" .}}
        ) AS r
        UNION ALL
        SELECT {{.Subscription}}, {{.Label}}, r.id::text, r.last_error, false
        FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
        CROSS JOIN LATERAL (
            SELECT r.*
            FROM {{.Table}} AS r
            WHERE r.completed_at IS NULL
              AND NOT r.waiting
              AND r.due_at > now()
              {{- template "of lane" .}}
        ) AS r
    ) AS u
    WHERE u.last_error LIKE '%no handler is registered for %'
) AS s
WHERE s.since IS NULL
   OR s.since < to_char(now() AT TIME ZONE 'UTC' - $4::float8 * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
GROUP BY s.subscription, s.label
ORDER BY rows DESC
LIMIT $3::int
