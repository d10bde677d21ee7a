-- Every version with the time of its commit, row by row, in order.
SELECT tbl, id::text, op::text, old_status, coalesce(old_token::text, ''), status, waiting, cancelled, coalesce(token::text, ''),
    attempts, max_attempts, due_at, fire_at, locked_until, generation, coalesce(name, ''), coalesce(key, ''), app, xid, txn_at, at,
    CASE WHEN op = 'I' OR status = 1 AND old_status = 0 THEN {{.Committed}} END, seq
FROM {{.Schema}}.audit
ORDER BY tbl, id, seq
