-- Sessions that look like those of a worker, by their last statement, and have been silent for so many seconds. What the
-- role may not see is NULL, so sessions of others are not among them. A listener of the schema,
-- which may have taken the upkeep lock of a table since, is surely a worker's; others
-- that have committed may be an application's.
SELECT a.pid, coalesce(a.application_name, '') AS application, coalesce(a.usename, '')::text AS role,
       coalesce(host(a.client_addr), '') AS client, a.state, extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS silent
FROM pg_stat_activity AS a
WHERE a.datname = current_database()
  AND a.pid <> pg_backend_pid()
  AND (a.state = 'idle' AND (a.query IN ('COMMIT', '-- ping') OR starts_with(a.query, 'LISTEN "' || $1 || '.')
       OR strpos(a.query, '''' || $1 || '.') > 0 AND strpos(a.query, ' upkeep') > 0)
       OR a.state LIKE 'idle in transaction%')
  AND a.state_change < clock_timestamp() - $2::float8 * interval '1 second'
ORDER BY a.query IN ('COMMIT', '-- ping'), a.state_change
LIMIT $3::int
