{{- /* InProgress -> Ready without counting the attempt: snooze.sql, leave.sql and release.sql. Same guard and lock
order as ack.sql.

A row that has not moved is announced to other workers, whose cursors have passed its place. A row that is put back for
the same cause again and again keeps the time of the first: due_at no longer tells how long it has waited.

A row that no handler has begun has not started. What counts starts takes them back here: a table with an admission by
its function give_start, once for each rule and claim. A table with keys has triggers, which tell the three cases apart
by the columns that the statement assigns. */ -}}
{{define "put_back" -}}
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail" retry "t.cancelled_at IS NOT NULL" .PutBackDue}}
        {{- if .IsLeaving}}
        waiting = t.waiting,
        {{- end}}
        attempts = CASE WHEN t.cancelled_at IS NOT NULL THEN t.attempts ELSE greatest(t.attempts - 1, 0) END
        {{- if not .IsReleasing}},
        last_error = CASE
            WHEN s.error IS NULL OR t.cancelled_at IS NOT NULL OR starts_with(t.last_error, s.error || ' since ')
            THEN t.last_error
            ELSE s.error || ' since ' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END
        {{- end}}
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), {{if not .IsReleasing -}}
            unnest(@delays::{{.DelayType}}[]), unnest(@errors::text[]),
            {{end}}generate_subscripts('{}'::int[], 1)) AS s (id, token{{if not .IsReleasing}}, delay, error{{end}})
    WHERE t.id = ANY (@ids::uuid[]) AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
    RETURNING t.id, t.status, t.cancelled_at IS NOT NULL AS cancelled{{.PutBackRule}}
        {{- if not .IsLeaving}},
        CASE WHEN t.status = 0{{if not .IsReleasing}} AND s.delay IS NULL{{end}} THEN t.due_at END AS back{{end}}
)
{{- if not .IsLeaving}}, told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE {{.AnnounceFrom "min(changed.back)"}} IS NOT NULL END
)
{{- end}}
{{- if .PutBackRule}}, given AS MATERIALIZED (
    SELECT {{.Function "give_start"}}(changed.rule, changed.owner, array_agg(changed.id)) FROM changed
    GROUP BY changed.rule, changed.owner
)
{{- end}}
{{- if .InFunction}}, settled AS ({{end}}
SELECT changed.id, changed.status, changed.cancelled FROM changed
{{- if not .IsLeaving}}, told{{end}}
{{- if .PutBackRule}}, (SELECT count(*) FROM given) AS given{{end}}
{{- if .InFunction}}){{end}}
{{- end}}
