-- Sessions that may belong to the process that held claims on the table, and that have been silent for $2 seconds, with
-- the reason. Two kinds surely belong to a worker: a listener of the schema, whose last statement may instead concern
-- the upkeep lock of a table, and a session whose last statement was a worker's claim or settle. An open transaction
-- that has written to the table, or locked rows of it, may belong to a handler or to a producer. Open transactions that
-- do not touch the table, and sessions that have just committed, are left out, since every application has them.
-- Columns that the role may not see are NULL, so sessions of other roles are left out.
SELECT s.*
FROM (
    SELECT a.pid, coalesce(a.application_name, '') AS application, coalesce(a.usename, '')::text AS role,
           coalesce(host(a.client_addr), '') AS client, a.state,
           extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS silent,
           CASE
               WHEN a.state = 'idle' AND (starts_with(a.query, 'LISTEN "' || $1 || '.')
                   OR strpos(a.query, '''' || $1 || '.') > 0 AND strpos(a.query, ' upkeep') > 0)
               THEN 'listens for a worker'
               WHEN a.state = 'idle' AND starts_with(a.query, 'UPDATE ' || $4 || ' AS t')
               THEN 'a worker claimed or settled with it'
               WHEN a.state LIKE 'idle in transaction%' AND EXISTS (
                   SELECT FROM pg_locks AS l
                   WHERE l.pid = a.pid AND l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock'
                     AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                     AND l.relation = to_regclass($4))
               THEN 'its transaction has written to the table, as one of a handler or of a producer does'
           END AS reason
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database()
      AND a.pid <> pg_backend_pid()
      AND a.state_change < clock_timestamp() - $2::float8 * interval '1 second'
) AS s
WHERE s.reason IS NOT NULL
ORDER BY s.state <> 'idle', s.silent DESC
LIMIT $3::int
