-- The latest dead letters, grouped by subscription, label and the first line of their error, with numbers and ids
-- masked. Rows without a handler have a finding of their own, and so have those that may end their process, and alarms.
SELECT s.subscription, s.label, s.error, count(*) AS rows, count(*) AS failed,
       (array_agg(s.id ORDER BY s.failed_at DESC))[1:3] AS ids,
       extract(epoch FROM now() - max(s.failed_at))::float8 AS latest
FROM (
    SELECT {{.Subscription}} AS subscription, {{.Label}} AS label, r.id::text AS id, r.failed_at,
           {{template "error"}} AS error
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL AND r.failed_at > now() - $1::float8 * interval '1 second'
      AND NOT (r.last_error LIKE 'lease expired at %' AND {{.Lost "r" "alone"}} >= $5::bigint)
      {{- if .FiresAlarms}}
      AND NOT (r.topic = 'alarm' AND starts_with(r.key, 'alarm/'))
      {{- end}}
    ORDER BY r.failed_at DESC, r.id DESC
    LIMIT $2::int) AS s
WHERE s.error NOT LIKE '%no handler is registered for %'
GROUP BY s.subscription, s.label, s.error
HAVING count(*) >= $3::int
ORDER BY rows DESC
LIMIT $4::int
