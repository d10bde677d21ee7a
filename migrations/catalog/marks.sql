-- The tables of a schema whose comments say which version they have, and the comments.
SELECT c.relname::text, pg_catalog.obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
  AND pg_catalog.obj_description(c.oid, 'pg_class') ~ '^txwork [a-z_]+ [0-9]'
ORDER BY 1
