-- The sessions of this database with the oldest transactions. A listener among them reads no notifications.
SELECT a.pid, coalesce(a.application_name, '') AS application, coalesce(a.usename, '')::text AS role,
       coalesce(a.state, '') AS state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS age
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
  AND a.backend_type = 'client backend'
ORDER BY a.xact_start
LIMIT $1::int
