-- Whether the schema has the table of alarms, which has no comment of the core, and whether row-level security hides
-- rows of it. A table of that name without its columns is the application's.
SELECT row_security_active(c.oid) AS filtered
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = 'alarms' AND c.relkind IN ('r', 'p')
  AND 2 = (SELECT count(*) FROM pg_attribute AS a
      WHERE a.attrelid = c.oid AND a.attname IN ('owner_did', 'wake_message') AND NOT a.attisdropped)
