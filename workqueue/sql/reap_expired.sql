-- InProgress with an expired lease -> Ready with backoff, or Failed. The limit counts expired rows only, so long jobs
-- with valid leases cannot hide them. SKIP LOCKED skips a row that is being settled or renewed at the same time; a row
-- that was renewed since the snapshot is checked again and skipped too. The backoff counts from the end of the lease,
-- because the attempt was over by then.
--
-- A lease that was lost together with others of its process gives its attempt back, as a snooze does: any of them may
-- have ended the process. It does so until the row has lost a lease alone, and a bounded number of times. The headers
-- count both, and the time tells workers for how long few others may run beside the row.
--
-- The rows of one process may fall into several calls, because of the limit or because their leases end at different
-- times. Of all those rows only the last could then look as if it had been alone. So a call that leaves one row of a
-- process leaves a note in it, which names the claim. The scan for such rows does not run if no lease has expired. The
-- function each has looked for them before its parts, and leaves no note: the row may be one that is in the way.
{{- if .MaxLost}}
--
-- The table's attempts last for hours, because they are meant for calls that fail. A row that has lost {{.MaxLost}}
-- leases alone is a dead letter before that, unless its attempts were chosen.
{{- end}}
{{if not .Lists -}}
WITH taken AS MATERIALIZED (
{{end}}    SELECT {{if .Lists}}r.id{{else}}r.ctid, r.id, {{template "process" "r"}} AS process,
        r.headers ->> 'txwork-lost-beside' IS NOT DISTINCT FROM r.owner_token::text
            {{- if .Among}} OR r.id = ANY (own.beside){{end}} AS noted,
        r.max_attempts > 1 AND r.attempts > 0
            AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object' AS returnable,
        {{template "lost" "alone"}} AS alone,
        {{template "lost" "together"}} AS together{{end}}
    FROM {{.Table}} AS r
    WHERE r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND r.locked_until < now(){{.Among}}
    ORDER BY {{range .Lanes}}r.{{.Quoted}}, {{end}}r.due_at, r.id
    LIMIT @max_rows::int
    FOR NO KEY UPDATE SKIP LOCKED{{if not .Lists}}
){{if not .Among}}, beside AS MATERIALIZED (
    SELECT r.ctid, {{template "process" "r"}} AS process
    FROM {{.Table}} AS r
    WHERE EXISTS (SELECT FROM taken)
      AND r.completed_at IS NULL
      AND NOT r.waiting
      AND r.status = 1
      AND r.due_at <= now()
      AND {{template "process" "r"}} = ANY (ARRAY(SELECT k.process FROM taken AS k))
      AND r.id <> ALL (ARRAY(SELECT k.id FROM taken AS k))
), left_alone AS (
    UPDATE {{.Table}} AS t
    SET headers = coalesce(t.headers, '{}'::jsonb)
        || jsonb_build_object('txwork-lost-beside', t.owner_token::text)
    WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM {{.Table}} AS r
        WHERE r.ctid = ANY (ARRAY(
            SELECT (array_agg(b.ctid))[1] FROM beside AS b GROUP BY b.process HAVING count(*) = 1))
          AND r.status = 1
          AND jsonb_typeof(coalesce(r.headers, '{}'::jsonb)) = 'object'
          AND r.headers ->> 'txwork-lost-beside' IS DISTINCT FROM r.owner_token::text
        FOR NO KEY UPDATE SKIP LOCKED))
){{end}}, lost AS MATERIALIZED (
    SELECT k.ctid, k.alone, k.together, s.shared,
        s.shared AND k.returnable AND k.alone = 0 AND k.together < {{.MaxReturns}} AS returned
    FROM (
        SELECT l.*, count(*) OVER (PARTITION BY l.process) AS rows FROM taken AS l) AS k
    CROSS JOIN LATERAL (
        SELECT k.rows > 1 OR k.noted
            {{- if not .Among}} OR k.process = ANY (ARRAY(SELECT b.process FROM beside AS b)){{end}} AS shared) AS s
), changed AS (
    UPDATE {{.Table}} AS t
    SET {{template "retry_or_fail"
            retry .ReapSpent .ReapDue}}
        owner_token = NULL,
        attempts = CASE WHEN l.returned AND t.cancelled_at IS NULL THEN t.attempts - 1 ELSE t.attempts END,
        headers = CASE WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object' THEN t.headers
            ELSE coalesce(t.headers, '{}'::jsonb) - ARRAY['txwork-lost-beside', 'txwork-running'] || jsonb_build_object(
                CASE WHEN l.shared THEN 'txwork-lost-together' ELSE 'txwork-lost-alone' END,
                (1 + CASE WHEN l.shared THEN l.together ELSE l.alone END)::text,
                'txwork-lost-at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END,
        last_error = {{reason `'lease expired at ' ||
            to_char(t.locked_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' in attempt ' || t.attempts
            || CASE WHEN l.returned THEN ', which does not count: other rows of its process were lost with it'
                WHEN NOT l.shared AND l.alone > 0
                    THEN ', lost alone ' || 1 + l.alone || ' times: it may end its process'
                ELSE '' END`}}
    FROM lost AS l
    WHERE t.ctid = l.ctid
    RETURNING t.status, t.cancelled_at, CASE WHEN t.status = 3 AND t.cancelled_at IS NULL THEN jsonb_build_object(
        'id', t.id, 'attempt', t.attempts, 'max_attempts', t.max_attempts, 'error', t.last_error,
        'labels', jsonb_build_array({{range $i, $l := .Labels}}{{if $i}}, {{end}}t.{{$l}}{{end}})) END AS dead_letter
)
SELECT (count(*) FILTER (WHERE changed.status = 0))::int AS requeued,
       (count(*) FILTER (WHERE changed.status = 3))::int AS failed,
       (count(*) FILTER (WHERE changed.status = 3 AND changed.cancelled_at IS NOT NULL))::int AS cancelled,
       jsonb_agg(changed.dead_letter) FILTER (WHERE changed.dead_letter IS NOT NULL) AS dead_letters
FROM changed
HAVING CASE WHEN bool_or(changed.status = 0) THEN {{.Announce}} IS NOT NULL ELSE true END{{end}}
