-- Failed -> cancelled, for dead letters that nobody will redrive: kept for as long as cancelled rows are, and no longer
-- a finding. What went wrong stays in last_error, behind the reason. It no longer holds up the rows of its key either:
-- a trigger notes the change of its policy.
UPDATE {{.Table}} AS t
SET cancelled_at = clock_timestamp(),
    {{- if .HasPolicy}}
    key_policy = CASE WHEN t.key_policy > 0 THEN 0 ELSE t.key_policy END,
    {{- end}}
    last_error = left(concat_ws('; ', @reason::text, t.last_error), {{.MaxNote}})
WHERE t.id = ANY (@ids::uuid[]) AND t.status = 3 AND t.cancelled_at IS NULL
RETURNING t.id
