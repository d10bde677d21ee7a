-- Connection limits of which nine tenths are in use.
WITH client AS MATERIALIZED (
    SELECT a.datid, a.usesysid FROM pg_stat_activity AS a WHERE a.datid IS NOT NULL AND a.usesysid IS NOT NULL
)
SELECT l.what, l.name, l.used, l.most
FROM (
    SELECT 'server' AS what, '' AS name, (SELECT count(*) FROM client) AS used,
           current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
           - coalesce(nullif(current_setting('reserved_connections', true), ''), '0')::bigint AS most
    UNION ALL
    SELECT 'database', d.datname::text, (SELECT count(*) FROM client AS c WHERE c.datid = d.oid), d.datconnlimit
    FROM pg_database AS d
    WHERE d.datname = current_database() AND d.datconnlimit > 0
    UNION ALL
    SELECT 'role', r.rolname::text, (SELECT count(*) FROM client AS c WHERE c.usesysid = r.oid), r.rolconnlimit
    FROM pg_roles AS r
    WHERE r.rolconnlimit > 0 AND NOT r.rolsuper AND r.oid IN (SELECT c.usesysid FROM client AS c)
) AS l
WHERE l.used * 10 >= l.most * 9
ORDER BY l.what DESC, l.name
LIMIT $1::int
