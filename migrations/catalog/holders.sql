-- The sessions that hold locks on the tables of a schema, the oldest transaction first. What a session does is visible
-- only to its own role and to monitors.
SELECT coalesce(string_agg(h.text, ', ' ORDER BY h.xact_start), '')
FROM (
    SELECT a.xact_start, format('process %s%s, %s', a.pid, coalesce(' of ' || nullif(a.application_name, ''), ''),
        coalesce(a.state || ', began ' || date_trunc('second', a.xact_start), 'of another role')) AS text
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.pid <> pg_catalog.pg_backend_pid() AND a.pid IN (
        SELECT l.pid
        FROM pg_catalog.pg_locks AS l
        JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE l.granted
          AND l.database = (
              SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
          AND n.nspname = $1)
    ORDER BY a.xact_start
    LIMIT 5
) AS h
