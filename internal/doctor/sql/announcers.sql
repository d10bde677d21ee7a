-- The sessions that hold the exclusive lock of an announcer of the tables $1 and have been silent for $2 seconds, or
-- for a time that the role may not see. An announcer sends a statement every few milliseconds.
SELECT n.name, l.pid, coalesce(a.application_name, '') AS application, coalesce(a.usename, '')::text AS role,
       coalesce(a.state, '') AS state, extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS silent
FROM (
    SELECT u.name, hashtextextended(u.name || ' announcer', 0) AS key FROM unnest($1::text[]) AS u (name)) AS n
JOIN pg_locks AS l ON l.classid = (n.key >> 32 & 4294967295)::oid AND l.objid = (n.key & 4294967295)::oid
JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.mode = 'ExclusiveLock'
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND (a.state_change IS NULL OR a.state_change < clock_timestamp() - $2::float8 * interval '1 second')
