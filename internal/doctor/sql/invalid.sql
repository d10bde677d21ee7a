-- Invalid indexes of the core's tables, and of the tables that belong to them, that no session is building.
SELECT i.indexrelid::regclass::text AS index, ic.relname::text AS name, c.relname::text AS table
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indrelid
JOIN pg_class AS ic ON ic.oid = i.indexrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND NOT (i.indisvalid AND i.indisready)
  AND EXISTS (
    SELECT FROM pg_class AS t
    WHERE t.relnamespace = c.relnamespace AND (c.relname = t.relname OR starts_with(c.relname::text, t.relname || '_'))
      AND obj_description(t.oid, 'pg_class') LIKE 'txwork core %')
  AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.relid = c.oid)
ORDER BY ic.relname
LIMIT $2::int
