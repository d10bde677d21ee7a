-- Counts the steps into new joins that had ended before these began.
UPDATE {{.Join}} AS j
SET succeeded = s.succeeded,
    failed = s.failed
FROM jsonb_to_recordset($1::text::jsonb) AS s (id uuid, succeeded integer, failed integer)
WHERE j.id = s.id AND s.succeeded + s.failed > 0
