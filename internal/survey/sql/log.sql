-- Whether the schema has an outbox that is a log, recognized by its comment, and whether row-level security hides rows
-- of one of its tables.
SELECT c.relname::text AS name,
       EXISTS (SELECT FROM pg_class AS f
           WHERE f.relnamespace = c.relnamespace AND f.relrowsecurity
             AND (f.oid = c.oid OR starts_with(f.relname::text, c.relname || '_'))
             AND row_security_active(f.oid)) AS filtered
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind = 'p' AND obj_description(c.oid, 'pg_class') LIKE 'txwork ' || c.relname || ' %'
ORDER BY c.relname
