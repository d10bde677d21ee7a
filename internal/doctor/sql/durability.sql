-- Settings with which commits can be lost: those of the server, and those of roles and databases.
SELECT s.name, s.setting AS value, false AS everyone, '' AS role, '' AS database
FROM pg_settings AS s
WHERE s.name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND s.reset_val = 'off'
  AND s.source NOT IN ('database', 'user', 'database user', 'client', 'session')
UNION ALL
SELECT split_part(o.text, '=', 1), 'off', s.setrole = 0 AND s.setdatabase = 0, coalesce(r.rolname, '')::text,
    coalesce(d.datname, '')::text
FROM pg_db_role_setting AS s
CROSS JOIN LATERAL unnest(s.setconfig) AS o (text)
LEFT JOIN pg_roles AS r ON r.oid = s.setrole
LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
WHERE o.text = 'synchronous_commit=off' AND (s.setdatabase = 0 OR d.datname = current_database())
ORDER BY 1, 3, 4, 5
LIMIT $1::int
