-- The rights that PUBLIC has on the core's tables and on their sequences and functions, and the statements that revoke
-- them.
WITH here AS MATERIALIZED (
    SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1
), ours AS (
    SELECT t.relname::text AS name
    FROM pg_class AS t
    WHERE t.relnamespace = (SELECT h.oid FROM here AS h) AND obj_description(t.oid, 'pg_class') LIKE 'txwork core %'
)
SELECT format('%s on %s', a.privilege_type, c.oid::regclass) AS what,
       format('REVOKE %s ON %s %s FROM PUBLIC;', a.privilege_type,
           CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass) AS revoke
FROM pg_class AS c, aclexplode(c.relacl) AS a
WHERE a.grantee = 0 AND c.relkind IN ('r', 'p', 'S') AND c.relnamespace = (SELECT h.oid FROM here AS h)
  AND EXISTS (SELECT FROM ours AS o WHERE c.relname = o.name OR starts_with(c.relname::text, o.name || '_'))
UNION ALL
SELECT format('EXECUTE on %s', p.oid::regprocedure),
       format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC;', p.oid::regprocedure)
FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
WHERE a.grantee = 0 AND p.pronamespace = (SELECT h.oid FROM here AS h)
  AND EXISTS (SELECT FROM ours AS o WHERE starts_with(p.proname::text, o.name || '_'))
ORDER BY 1
LIMIT $2::int
