-- InProgress with an expired lease -> Ready with backoff, or Failed. The limit counts expired rows only, so long jobs
-- with valid leases cannot hide them. SKIP LOCKED skips a row that is being settled or renewed at the same time; a row
-- that was renewed since the snapshot is checked again and skipped too. The backoff counts from the end of the lease,
-- because the attempt was over by then.
WITH changed AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail" retry "t.attempts >= t.max_attempts OR t.cancelled_at IS NOT NULL" .ReapDue}}
        owner_token = NULL,
        last_error = {{reason `'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts`}}
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM {{.Table}} AS r
        WHERE r.completed_at IS NULL
          AND NOT r.waiting
          AND r.status = 1
          AND r.due_at <= now()
          AND r.locked_until < now()
        ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
        LIMIT @max_rows::int
        FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING t.status, t.cancelled_at
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN {{.Announce}} IS NOT NULL ELSE true END
