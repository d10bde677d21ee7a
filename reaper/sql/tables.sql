-- The tables of txwork in some schemas, by the version that the core writes beside each.
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1::text[]) AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
ORDER BY 1
