-- What checks look for among the due rows, the next rows to become due, and the latest dead letters of the last $2
-- seconds, which are read once for all of them.
--
-- The due rows are the oldest of each lane, {{.Most}} of all lanes together: an equal share of each, and what lanes
-- do not need of it goes to the others in equal parts, so that rows in progress are found behind many that are ready.
-- Heads are the numbers of each lane with due rows. A lane with more rows than were read says so. Lanes are all that
-- have rows.
--
-- Expired are the claims with rows whose lease ended $6 seconds ago, the oldest first. Deadly are the rows that have
-- lost at least $1 leases alone. What producers wrote in these headers, if it is no small number, is 0. Unhandled are
-- the rows whose last attempt found no handler, in groups. The library writes the error text. A row that is retried is
-- due now or later in turn, and counts in both states. A row that is left to other workers is due again after some
-- seconds, and its error says since when it has been put back. It counts after $5 seconds. Last, whether there are
-- dead letters behind the latest $3.
--
-- What is kept of the rows that were read has no text and no headers, unless a check looks for them.
{{define "suspect"}}({{.Lost "r" "alone"}} >= $1::bigint
            OR coalesce(r.last_error LIKE '%no handler is registered for %', false)){{end}}
{{- define "columns"}}r.id, r.status, r.due_at, r.locked_until, r.owner_token, r.attempts, r.max_attempts,
           CASE WHEN {{template "suspect" .}} THEN r.last_error END AS last_error,
           CASE WHEN {{template "suspect" .}} THEN r.headers END AS headers,
           {{.Subscription}} AS subscription, coalesce({{.Label}}, '') AS label,
           CASE WHEN {{template "held" "r"}} THEN {{.RunningFor "r"}} END AS ran,
           CASE WHEN {{template "held" "r"}} THEN {{.RunningWithin "r" "$8::float8"}} END AS within{{end}}
{{- define "share"}}
    {{- if .Lanes}}(SELECT greatest({{.Most}} / greatest(count(*), 1), 20) FROM few){{else}}{{.Most}}{{end}}{{end}}
{{- define "due rows"}}
        SELECT {{template "columns" .}}
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.due_at <= now()
          {{- template "in lane" .}}{{end}}
{{- define "lanes of l"}}{{range .Lanes}}l.{{.Alias}}, {{end}}{{end}}
{{- if .Lanes}}{{template "lane" .}}, first AS MATERIALIZED (
    SELECT {{template "lanes of l" .}}r.*
    FROM few AS l
    CROSS JOIN LATERAL ({{template "due rows" .}}
        LIMIT {{template "share" .}}) AS r
), cut AS MATERIALIZED (
    SELECT {{template "lanes of l" .}}count(*) AS seen,
           ({{.Most}} - (SELECT count(*) FROM first)) / count(*) OVER () AS others
    FROM first AS l
    GROUP BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}{{end}}
    HAVING count(*) >= {{template "share" .}}
), due AS MATERIALIZED (
    SELECT * FROM first
    UNION ALL
    SELECT {{template "lanes of l" .}}r.*
    FROM cut AS l
    CROSS JOIN LATERAL ({{template "due rows" .}}
        OFFSET l.seen LIMIT greatest(l.others, 0)) AS r
){{else}}WITH due AS MATERIALIZED ({{template "due rows" .}}
        LIMIT {{.Most}}
){{end}}, head AS MATERIALIZED (
    SELECT {{template "lanes of l" .}}count(*) AS seen, count(*) FILTER (WHERE l.status = 0) AS ready,
           count(*) FILTER (WHERE l.status = 1) AS running,
           count(*) FILTER (WHERE l.status = 1 AND l.locked_until < now() - $6::float8 * interval '1 second')
               AS expired,
           coalesce(extract(epoch FROM now() - min(l.due_at) FILTER (WHERE l.status = 0)), 0)::float8 AS oldest_ready,
           coalesce(extract(epoch FROM now() - min(l.locked_until) FILTER (WHERE l.status = 1)), 0)::float8
               AS oldest_expired,
           coalesce(max(l.ran), 0)::float8 AS longest, count(*) FILTER (WHERE l.ran > $7::float8) AS long,
           count(*) FILTER (WHERE l.ran > l.within) AS overdue
    FROM due AS l
    {{- if .Lanes}}
    GROUP BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}{{end}}
    {{- end}}
), suspect AS MATERIALIZED (
    SELECT s.*
    FROM (
        SELECT r.id::text AS id, r.subscription, r.label, r.status, r.status = 3 AS failed,
               {{.Lost "r" "alone"}} AS alone, {{.Lost "r" "together"}} AS together,
               coalesce(r.headers ->> 'txwork-lost-at', '') AS last, r.attempts, r.max_attempts, r.last_error,
               coalesce(r.last_error LIKE '%no handler is registered for %', false) AS unhandled
        FROM (
            (SELECT {{template "columns" .}}
            FROM {{.Table}} AS r
            WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL
                AND r.failed_at > now() - $2::float8 * interval '1 second'
            ORDER BY r.failed_at DESC, r.id DESC
            LIMIT $3::int)
            UNION ALL
            SELECT r.id, r.status, r.due_at, r.locked_until, r.owner_token, r.attempts, r.max_attempts, r.last_error,
                   r.headers, r.subscription, r.label, r.ran, r.within
            FROM due AS r
            WHERE r.last_error IS NOT NULL OR r.headers IS NOT NULL
            UNION ALL
            SELECT r.*
            FROM {{if .Lanes}}few{{else}}(SELECT){{end}} AS l
            CROSS JOIN LATERAL (
                SELECT {{template "columns" .}}
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
    SELECT jsonb_build_object('lane', {{template "names" .}}, 'seen', l.seen, 'ready', l.ready, 'running', l.running,
               'expired', l.expired, 'oldestReady', l.oldest_ready, 'oldestExpired', l.oldest_expired,
               'longest', l.longest, 'long', l.long, 'overdue', l.overdue,
               'more', CASE WHEN l.seen >= {{template "share" .}}
                   THEN EXISTS (
                       SELECT
                       FROM {{.Table}} AS r
                       WHERE r.completed_at IS NULL
                         AND NOT r.waiting
                         AND r.due_at <= now()
                         {{- template "in lane" .}}
                       OFFSET l.seen
                       LIMIT 1) ELSE false END)
    FROM head AS l
    {{- if .Lanes}}
    ORDER BY {{range $i, $l := .Lanes}}{{if $i}}, {{end}}l.{{.Alias}}{{end}}
    {{- end}}) AS heads,
    ARRAY(
    SELECT jsonb_build_object('owner', coalesce(r.owner_token::text, ''), 'rows', count(*),
               'ended', extract(epoch FROM now() - min(r.locked_until)),
               'ids', (array_agg(r.id::text ORDER BY r.locked_until))[1:3], 'attempts', max(r.attempts),
               'label', min(r.label))
    FROM due AS r
    WHERE r.status = 1 AND r.locked_until < now() - $6::float8 * interval '1 second'
    GROUP BY r.owner_token
    ORDER BY min(r.locked_until)
    LIMIT $9::int) AS expired,
    ARRAY(
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
    {{if .Lanes}}(SELECT count(*) FROM few){{else}}0::bigint{{end}} AS lanes,
    EXISTS (
    SELECT
    FROM {{.Table}} AS r
    WHERE r.failed_at IS NOT NULL AND r.cancelled_at IS NULL AND r.failed_at > now() - $2::float8 * interval '1 second'
    ORDER BY r.failed_at DESC, r.id DESC
    OFFSET $3::int
    LIMIT 1) AS more_dead
