{{- /* InProgress -> Ready without counting the attempt: snooze.sql, leave.sql, release.sql and unavailable.sql. Same
guard and lock order as ack.sql.

A row that has not moved is announced to other workers, whose cursors have passed its place. A row that is put back for
the same cause again and again keeps the time of the first: due_at no longer tells how long it has waited.

A row that no handler has begun has not started. What counts starts takes them back here: a table with an admission by
its function give_start, once for each rule and claim. A table with keys has triggers, which tell the three cases apart
by the columns that the statement assigns.

A row whose destination is unavailable goes to the lane of its topic, where claims leave it while the topic rests. The
first such row of an outage makes the topic rest, and the probe makes it rest longer; all others find that it rests and
write no state. Nor do those that meet a transaction which is just writing the topic's state, such as one that makes it
rest: they would wait for it. Their rows may be claimed again, and say the same. */ -}}
{{define "put_back" -}}
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail" retry "t.cancelled_at IS NOT NULL" .PutBackDue}}
        {{- if .IsLeaving}}
        waiting = t.waiting,
        {{- end}}
        {{- if .Rests}}
        waiting = t.cancelled_at IS NULL AND {{.MayRest "t"}},
        aside = CASE WHEN t.cancelled_at IS NULL AND {{.MayRest "t"}} THEN true END,
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
        {{- if .Rests}},
        {{range .TopicLane}}t.{{.Quoted}}, {{end}}CASE WHEN {{.MayRest "t"}} THEN {{.TopicOf "t"}} END AS topic,
        s.token, s.error
        {{- end}}
        {{- if .TellsBack}},
        CASE WHEN t.status = 0{{if not .IsReleasing}} AND s.delay IS NULL{{end}} THEN t.due_at END AS back{{end}}
)
{{- if .TellsBack}}, told AS MATERIALIZED (
    SELECT FROM changed
    HAVING CASE WHEN min(changed.back) IS NULL THEN true ELSE {{.AnnounceFrom "min(changed.back)"}} IS NOT NULL END
)
{{- end}}
{{- if .PutBackRule}}, given AS MATERIALIZED (
    SELECT {{.Function "give_start"}}(changed.rule, changed.owner, array_agg(changed.id)) FROM changed
    GROUP BY changed.rule, changed.owner
)
{{- end}}
{{- if .Rests}}, resting AS MATERIALIZED ( -- so that only these try the lock
    SELECT {{range .TopicLane}}c.{{.Quoted}}, {{end}}c.topic, min(c.error) AS error
    FROM changed AS c
    WHERE c.topic IS NOT NULL AND NOT EXISTS (
        SELECT FROM {{.Function "topic"}} AS k
        WHERE {{range .TopicLane}}k.{{.Quoted}} = c.{{.Quoted}} AND {{end}}k.topic = c.topic
          AND k.unavailable_since IS NOT NULL AND (k.probe, k.probe_token) IS DISTINCT FROM (c.id, c.token))
    GROUP BY {{range .TopicLane}}c.{{.Quoted}}, {{end}}c.topic
    ORDER BY {{range .TopicLane}}c.{{.Quoted}}, {{end}}c.topic
), known AS MATERIALIZED ( -- those of them whose state nobody else is writing
    SELECT {{range .TopicLane}}c.{{.Quoted}}, {{end}}c.topic
    FROM resting AS c
    CROSS JOIN LATERAL (
        SELECT FROM {{.Function "topic"}} AS k
        WHERE {{range .TopicLane}}k.{{.Quoted}} = c.{{.Quoted}} AND {{end}}k.topic = c.topic
        FOR NO KEY UPDATE SKIP LOCKED) AS k
), state AS (
    INSERT INTO {{.Function "topic"}} AS p
        ({{range .TopicLane}}{{.Quoted}}, {{end}}topic, unavailable_since, rests_until, rest, cause)
    SELECT {{range .TopicLane}}c.{{.Quoted}}, {{end}}c.topic, clock_timestamp(), {{.RestEnd .FirstRest}},
        {{.FirstRest}}, coalesce(c.error, 'no reason given')
    FROM resting AS c
    WHERE EXISTS (
            SELECT FROM known AS k
            WHERE {{range .TopicLane}}k.{{.Quoted}} = c.{{.Quoted}} AND {{end}}k.topic = c.topic)
       OR NOT EXISTS (
            SELECT FROM {{.Function "topic"}} AS k
            WHERE {{range .TopicLane}}k.{{.Quoted}} = c.{{.Quoted}} AND {{end}}k.topic = c.topic)
        AND pg_try_advisory_xact_lock({{.TopicLock "c."}})
    ON CONFLICT ({{range .TopicLane}}{{.Quoted}}, {{end}}topic) DO UPDATE
    SET unavailable_since = coalesce(p.unavailable_since, excluded.unavailable_since),
        rest = {{.NextRest}},
        rests_until = {{.RestEnd .NextRest}},
        cause = excluded.cause,
        probe = NULL,
        probe_token = NULL,
        probe_attempt = NULL
    WHERE p.unavailable_since IS NULL OR (p.probe, p.probe_token) IN (SELECT c.id, c.token FROM changed AS c)
    RETURNING {{range .TopicLane}}p.{{.Quoted}}, {{end}}p.topic,
        p.unavailable_since::timestamptz >= statement_timestamp() AS begun
)
{{- end}}
{{- if .InFunction}}, settled AS ({{end}}
SELECT changed.id, changed.status, changed.cancelled{{if .IsUnavailable}}, {{.Begun}}{{end}} FROM changed
{{- if .Rests}}
LEFT JOIN state ON {{range .TopicLane}}state.{{.Quoted}} = changed.{{.Quoted}} AND {{end}}state.topic = changed.topic
{{- end}}
{{- if .TellsBack}}, told{{end}}
{{- if .PutBackRule}}, (SELECT count(*) FROM given) AS given{{end}}
{{- if .InFunction}}){{end}}
{{- end}}
