-- What checks look for among the oldest due rows, the next rows to become due, and the latest dead letters of the last
-- $2 seconds, which are read once for all of them.
--
-- Deadly are the rows that have lost at least $1 leases alone. What producers wrote in these headers, if it is no small
-- number, is 0. Unhandled are the rows whose last attempt found no handler, in groups. The library writes the error
-- text. A row that is retried is due now or later in turn, and counts in both states. A row that is left to other
-- workers is due again after some seconds, and its error says since when it has been put back. It counts after $5
-- seconds. Last, whether there are due rows, and dead letters behind the latest $3, that were not read.
{{define "behind"}}
        {{- template "in lane" .}}
        OFFSET {{if .Lanes}}(
            SELECT greatest({{.MaxHead}} / greatest(count(*), 1), 50) FROM few){{else}}{{.MaxHead}}{{end}}
        LIMIT 1{{end}}
{{if .Lanes}}{{template "lane" .}},{{else}}WITH{{end}} suspect AS MATERIALIZED (
    SELECT s.*
    FROM (
        SELECT r.id::text AS id, {{.Subscription}} AS subscription, coalesce({{.Label}}, '') AS label, r.status,
               r.failed_at IS NOT NULL AS failed, {{.Lost "r" "alone"}} AS alone, {{.Lost "r" "together"}} AS together,
               coalesce(r.headers ->> 'txwork-lost-at', '') AS last, r.attempts, r.max_attempts, r.last_error,
               coalesce(r.last_error LIKE '%no handler is registered for %', false) AS unhandled
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
    WHERE s.alone >= $1::bigint OR s.unhandled
)
SELECT ARRAY(
    SELECT jsonb_build_object('id', s.id, 'label', s.label, 'status', s.status, 'alone', s.alone,
               'together', s.together, 'last', s.last, 'attempts', s.attempts, 'max_attempts', s.max_attempts,
               'error', s.last_error)
    FROM suspect AS s
    WHERE s.alone >= $1::bigint
    ORDER BY s.alone DESC, s.last DESC
    LIMIT $4::int) AS deadly,
    ARRAY(
    SELECT jsonb_build_object('subscription', s.subscription, 'label', s.label, 'error', min(s.last_error),
               'rows', count(*), 'failed', count(*) FILTER (WHERE s.failed),
               'ids', (array_agg(s.id ORDER BY s.failed DESC))[1:3],
               'left', count(s.since) FILTER (WHERE NOT s.failed), 'since', coalesce(min(s.since), ''))
    FROM (
        SELECT u.*, substring(u.last_error FROM ' since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$') AS since
        FROM suspect AS u
        WHERE u.unhandled) AS s
    WHERE s.since IS NULL
       OR s.since < to_char(now() AT TIME ZONE 'UTC' - $5::float8 * interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    GROUP BY s.subscription, s.label
    ORDER BY count(*) DESC
    LIMIT $4::int) AS unhandled,
    EXISTS (
    SELECT
    FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
    CROSS JOIN LATERAL (
        SELECT
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at <= now()
          {{- template "behind" .}}) AS r) AS more_due,
    EXISTS (
    SELECT
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL AND r.failed_at > now() - $2::float8 * interval '1 second'
    ORDER BY r.failed_at DESC, r.id DESC
    OFFSET $3::int
    LIMIT 1) AS more_dead
