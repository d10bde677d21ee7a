-- The ack of ack.sql for rows of one claim, as nearly all are. It needs no join, which costs the server a seventh of an
-- ack, of one row as of a thousand. A statement for each of several claims would cost as much as the join where they
-- are small, and lock rows out of order.
UPDATE {{.Table}} AS t
{{template "acked" .}}
WHERE t.id = ANY (@ids::uuid[]) AND t.owner_token = @owner_token::uuid AND coalesce(t.status = 1, false)
RETURNING t.id
