-- Ready -> InProgress for rows whose topics may start them: see topics.sql. The first columns say what a row is.
SELECT a.kind, a.topic, a.n, a.lane, a.due_at AS place, a.id AS place_id,
    (a.claimed).id, (a.claimed).due_at, (a.claimed).created_at, (a.claimed).attempts, (a.claimed).max_attempts,
    (a.claimed).headers::text AS headers, {{.Noted "(a.claimed)"}} AS noted
    {{- range .Columns}}{{if not .Internal}}, (a.claimed).{{.Quoted}}{{end}}{{end}}
FROM {{.Function "claim_by_topic"}}(@owner_token::uuid, @lease::interval, @batch_size::int,
    @after_due::timestamptz[], @after_id::uuid[]
    {{- range .Lanes}}, @{{.Param}}::{{.Bind}}[]{{end}},
    @busy::text[], @open::text[], @open_due::timestamptz[], @open_id::uuid[], @room::int[], @asks::boolean) AS a
