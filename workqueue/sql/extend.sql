-- InProgress -> InProgress: the lease moves, the token stays. Locked rows, such as one whose handler is committing its
-- own settle, are skipped, so a renewal never waits. They are found by id, not by ctid: a row that changed before it
-- was locked is followed to its newest version. Both joins are written for the planner as that of ack.sql.
--
-- The first renewal of a claim records since when the row runs, and within which time it should end, if the worker says
-- so. Later renewals leave the record as it is, unless that time has changed, and rows that end before the first one
-- have none. It names the claim, so that no settle and no claim has to remove it. A worker claims and renews with one
-- lease, so its first lease began when the row was claimed. Whoever calls the function may have claimed with another:
-- its rows run since their first renewal at least. Headers that are no object are left as they are.
UPDATE {{.Table}} AS t
SET locked_until = clock_timestamp() + @lease::interval,
    headers = CASE
        WHEN jsonb_typeof(coalesce(t.headers, '{}'::jsonb)) <> 'object'
            OR {{template "recorded"}} AND coalesce(s.within::text = split_part({{template "record"}}, ' ', 2), true)
        THEN t.headers
        ELSE coalesce(t.headers, '{}'::jsonb) || jsonb_build_object('txwork-running', concat(
            CASE WHEN {{template "recorded"}} THEN split_part({{template "record"}}, ' ', 1)
                ELSE (extract(epoch FROM coalesce(t.locked_until - @claimed::interval, clock_timestamp()))
                    * 1000000)::bigint::text END,
            ' ', s.within, ' ', t.owner_token)) END
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), unnest(@within::bigint[]),
        generate_subscripts('{}'::int[], 1)) AS s (id, token, within)
WHERE t.id = ANY (ARRAY(
    SELECT r.id
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@tokens::uuid[]), generate_subscripts('{}'::int[], 1)) AS h (id, token)
    JOIN {{.Table}} AS r ON r.id = h.id
    WHERE r.id = ANY (@ids::uuid[]) AND r.owner_token = h.token AND coalesce(r.status = 1, false)
    FOR NO KEY UPDATE OF r SKIP LOCKED))
  AND t.id = s.id AND t.owner_token = s.token AND coalesce(t.status = 1, false)
RETURNING t.id, t.cancelled_at IS NOT NULL AS cancelled{{if .InFunction}}, t.locked_until::timestamptz{{end}}
{{- define "record"}}(t.headers ->> 'txwork-running'){{end}}
{{- define "recorded"}}coalesce(split_part({{template "record"}}, ' ', 3) = t.owner_token::text, false){{end}}
