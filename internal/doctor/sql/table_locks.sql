-- The sessions and prepared transactions that hold, or wait for, the only lock on tables of the schema that keeps
-- others from reading, those that hold one first. Columns that the role may not see are NULL.
SELECT c.relname::text AS table, l.pid, coalesce(p.gid, '') AS prepared,
       coalesce(a.application_name, '') AS application, coalesce(a.usename, p.owner, '')::text AS role,
       coalesce(a.state, '') AS state,
       coalesce(left(a.query, 200), '') AS query, l.mode AS lock, l.granted AS held,
       extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8 AS since,
       extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS query_started,
       CASE WHEN l.granted THEN '{}' ELSE pg_blocking_pids(l.pid) END::int[] AS behind
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts AS p ON l.pid IS NULL AND l.virtualtransaction = '-1/' || p.transaction
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND l.pid IS DISTINCT FROM pg_backend_pid()
ORDER BY l.granted DESC, l.pid, c.relname
LIMIT 100
