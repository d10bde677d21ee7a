-- The session that holds a schedule's row, found by the transaction that has locked it. Sessions that share a lock are
-- not found, and of other roles' sessions only what this role may see is returned.
SELECT coalesce(a.pid, 0),
       coalesce(concat_ws(', ', 'role ' || a.usename, nullif(a.application_name, ''), a.state,
           'in a transaction since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), '')
FROM {{.Table}} AS t
LEFT JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'transactionid' AND l.transactionid = t.xmax AND l.granted AND l.mode = 'ExclusiveLock'
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE t.name = $1
