-- The rights that PUBLIC has on the core's tables and on their sequences and functions, and the statements that revoke
-- them.
WITH ours AS (
    SELECT t.relname::text AS name, t.relnamespace
    FROM pg_class AS t
    JOIN pg_namespace AS n ON n.oid = t.relnamespace
    WHERE n.nspname = $1 AND obj_description(t.oid, 'pg_class') LIKE 'txwork core %'
)
SELECT format('%s on %s', a.privilege_type, c.oid::regclass) AS what,
       format('REVOKE %s ON %s %s FROM PUBLIC;', a.privilege_type,
           CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass) AS revoke
FROM pg_class AS c, aclexplode(c.relacl) AS a
WHERE a.grantee = 0 AND c.relkind IN ('r', 'p', 'S')
  AND EXISTS (
    SELECT FROM ours AS o
    WHERE o.relnamespace = c.relnamespace AND (c.relname = o.name OR starts_with(c.relname::text, o.name || '_')))
UNION ALL
SELECT format('EXECUTE on %s', p.oid::regprocedure),
       format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC;', p.oid::regprocedure)
FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
WHERE a.grantee = 0
  AND EXISTS (
    SELECT FROM ours AS o
    WHERE o.relnamespace = p.pronamespace AND starts_with(p.proname::text, o.name || '_'))
ORDER BY 1
LIMIT $2::int
