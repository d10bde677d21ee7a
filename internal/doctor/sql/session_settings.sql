-- Settings with which sessions are refused: triggers do not run, or the search_path names a schema before pg_catalog
-- that is there. They are those of roles and databases and, as far as this session can tell, the server's: its own
-- search_path hides that of the server. Roles that may not use the schema do not matter.
WITH setting AS (
    SELECT s.name, s.reset_val AS value, false AS everyone, NULL::oid AS role, NULL::oid AS database
    FROM pg_settings AS s
    WHERE s.name = 'session_replication_role'
      AND s.source NOT IN ('database', 'user', 'database user', 'client', 'session', 'global')
    UNION ALL
    SELECT split_part(o.text, '=', 1), substr(o.text, strpos(o.text, '=') + 1), s.setrole = 0 AND s.setdatabase = 0,
        nullif(s.setrole, 0), nullif(s.setdatabase, 0)
    FROM pg_db_role_setting AS s
    CROSS JOIN LATERAL unnest(s.setconfig) AS o (text)
    WHERE s.setdatabase = 0 OR s.setdatabase = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
)
SELECT s.name, s.value, s.everyone, coalesce(r.rolname, '')::text AS role, coalesce(d.datname, '')::text AS database,
    coalesce(p.without, '') AS without
FROM setting AS s
LEFT JOIN pg_roles AS r ON r.oid = s.role
LEFT JOIN pg_database AS d ON d.oid = s.database
LEFT JOIN LATERAL (
    SELECT string_agg(e.text, ', ' ORDER BY e.place) FILTER (WHERE e.schema <> 'pg_catalog') AS without,
        min(e.place) FILTER (WHERE e.schema = 'pg_catalog') AS place,
        min(e.place) FILTER (WHERE e.schema <> 'pg_catalog' AND EXISTS (
            SELECT FROM pg_namespace AS n
            WHERE n.nspname = e.schema OR e.schema = '$user' AND n.nspname IN (
                SELECT u.rolname FROM pg_roles AS u WHERE s.role IS NULL OR u.oid = s.role))) AS first
    FROM (
        SELECT m.place, m.found[1] AS text,
            CASE WHEN m.found[1] LIKE '"%' THEN replace(substr(m.found[1], 2, length(m.found[1]) - 2), '""', '"')
                ELSE m.found[1] END AS schema
        FROM regexp_matches(s.value, '("(?:[^"]|"")*"|[^,\s]+)', 'g') WITH ORDINALITY AS m (found, place)
    ) AS e
) AS p ON s.name = 'search_path'
WHERE (s.name = 'session_replication_role' AND s.value = 'replica' OR p.first < p.place)
  AND (s.role IS NULL OR EXISTS (
    SELECT FROM pg_namespace AS n WHERE n.nspname = $1 AND has_schema_privilege(s.role, n.oid, 'USAGE')))
ORDER BY 1, 3, 4, 5
LIMIT $2::int
