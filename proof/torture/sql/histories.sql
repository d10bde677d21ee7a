-- The versions of each row in order, with the times of their commits, and last the row as the table has it now: a
-- version that bypassed the trigger is visible then.
SELECT tbl, id::text, op::text, old_status, coalesce(old_token::text, ''), status, waiting, cancelled,
    coalesce(token::text, ''), attempts, max_attempts, due_at, fire_at, locked_until, generation, coalesce(name, ''),
    coalesce(key, ''), app, xid, txn_at, at, committed, seq
FROM (
    SELECT tbl, id, op, old_status, old_token, status, waiting, cancelled, token, attempts, max_attempts, due_at,
        fire_at, locked_until, generation, name, key, app, xid, txn_at, at,
        CASE WHEN op = 'I' OR status = 1 AND old_status = 0 THEN {{.Committed}} END AS committed, seq
    FROM {{.Schema}}.row_changes
{{- range .Tables}}
    UNION ALL
    SELECT '{{.Table}}', r.id, 'F', -1, NULL, r.status, {{.Waiting}}, r.cancelled_at IS NOT NULL, r.owner_token,
        r.attempts, r.max_attempts, r.due_at, {{.Fire}}::timestamptz, r.locked_until, {{.Generation}}, {{.Name}},
        {{.Key}}, '', 0, now(), now(), NULL, 9223372036854775807
    FROM {{.Schema}}.{{.Table}} AS r
{{- end}}
) AS versions
ORDER BY tbl, versions.id, seq
