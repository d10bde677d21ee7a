-- Ready -> InProgress as far as rules let pass: see claim_admitted.sql. What admit said stands before each row, and also
-- comes where there is none.
SELECT {{if .WholeRows}}a.claimed{{else}}a.admitted, a.again, a.bounded, (a.claimed).id IS NOT NULL AS found,
    (a.claimed).id, (a.claimed).due_at, (a.claimed).created_at, (a.claimed).attempts, (a.claimed).max_attempts,
    (a.claimed).headers::text AS headers, {{.Noted "(a.claimed)"}} AS noted
    {{- range .Columns}}{{if not .Internal}}, (a.claimed).{{.Quoted}}{{end}}{{end}}{{end}}
FROM {{.Function "claim_admitted"}}(@owner_token::uuid, @lease::interval, @batch_size::int, @after_due::timestamptz[], @after_id::uuid[]
    {{- range .Lanes}}, @{{.Param}}::{{.Bind}}[]{{end}}) AS a
{{- if .WholeRows}}
WHERE (a.claimed).id IS NOT NULL
{{- end}}
