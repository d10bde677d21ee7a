-- Ready -> InProgress for as many rows as the rules admit: see claim_admitted.sql. The first columns of each row repeat
-- the result of admit; if no row was claimed, one row has only these.
SELECT a.admitted, a.again, a.bounded, (a.claimed).id IS NOT NULL AS found,
    (a.claimed).id, (a.claimed).due_at, (a.claimed).created_at, (a.claimed).attempts, (a.claimed).max_attempts,
    (a.claimed).headers::text AS headers, {{.Noted "(a.claimed)"}} AS noted
    {{- range .Columns}}{{if not .Internal}}, (a.claimed).{{.Quoted}}{{end}}{{end}}
FROM {{.Function "claim_admitted"}}(@owner_token::uuid, @lease::interval, @batch_size::int,
    @after_due::timestamptz[], @after_id::uuid[]
    {{- range .Lanes}}, @{{.Param}}::{{.Bind}}[]{{end}}) AS a
