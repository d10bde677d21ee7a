-- The ack of ack.sql for rows of one claim, as nearly all are. It needs no join, which costs the server a seventh of an
-- ack, of one row as of a thousand. A statement for each of several claims would cost as much as the join where they
-- are small, and lock rows out of order.
UPDATE {{.Table}} AS t
SET status = 2,
    completed_at = clock_timestamp(),
    locked_until = NULL
    {{- if .Kept}},
    {{.Held}} = CASE WHEN t.{{.Kept}} & 4 > 0 THEN t.{{.Held}} END
    {{- end}}
WHERE t.id = ANY (@ids::uuid[]) AND t.owner_token = @owner_token::uuid AND coalesce(t.status = 1, false)
RETURNING t.id
