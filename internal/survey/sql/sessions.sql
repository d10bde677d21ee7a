-- The sessions of this database, grouped by application, role and client address: how many are in each state, the age
-- of their oldest transaction, and how long ago the last of them changed its state.
SELECT coalesce(a.application_name, '') AS application, coalesce(a.usename, '')::text AS role,
       coalesce(host(a.client_addr), '') AS client, count(*) AS sessions,
       count(*) FILTER (WHERE a.state = 'active') AS active,
       count(*) FILTER (WHERE a.wait_event_type = 'Lock') AS waiting,
       count(*) FILTER (WHERE a.state LIKE 'idle in transaction%') AS idle_in_transaction,
       coalesce(extract(epoch FROM clock_timestamp() - min(a.xact_start)), 0)::float8 AS oldest_transaction,
       coalesce(extract(epoch FROM clock_timestamp() - max(a.state_change)), 0)::float8 AS silent,
       count(*) OVER () AS groups
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
GROUP BY 1, 2, 3
ORDER BY sessions DESC, 1, 2, 3
LIMIT $1::int
