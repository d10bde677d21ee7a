-- Sessions that have waited for a lock for $2 seconds, and that use or wait for a table of the schema, each with the
-- sessions that block it.
WITH late AS MATERIALIZED (
    SELECT DISTINCT ON (l.pid) l.pid, l.waitstart, l.locktype, l.relation, l.mode
    FROM pg_locks AS l
    WHERE NOT l.granted AND l.waitstart < clock_timestamp() - $2::float8 * interval '1 second'
      AND l.pid <> pg_backend_pid()
      AND EXISTS (
        SELECT FROM pg_locks AS o
        JOIN pg_class AS c ON c.oid = o.relation
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE o.pid = l.pid AND n.nspname = $1
          AND o.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))
    ORDER BY l.pid, l.waitstart
    LIMIT $4::int
)
SELECT w.pid, coalesce(a.application_name, '') AS application, coalesce(left(a.query, 200), '') AS query,
       CASE WHEN w.relation IS NULL THEN w.locktype ELSE w.mode || ' on ' || w.relation::regclass END AS waited,
       extract(epoch FROM clock_timestamp() - w.waitstart)::float8 AS seconds,
       h.pid AS holder, coalesce(h.application_name, '') AS holder_application,
       coalesce(h.usename, '')::text AS holder_role, coalesce(h.state, '') AS holder_state,
       coalesce(left(h.query, 200), '') AS holder_query,
       extract(epoch FROM clock_timestamp() - h.xact_start)::float8 AS holder_seconds,
       (SELECT count(*) FROM late) AS waiters
FROM late AS w
JOIN pg_stat_activity AS a ON a.pid = w.pid
JOIN pg_stat_activity AS h ON h.pid = ANY (pg_blocking_pids(w.pid))
WHERE NOT EXISTS (SELECT FROM late AS o WHERE o.pid = h.pid) -- a session that waits itself is not the cause
ORDER BY seconds DESC
LIMIT $3::int
