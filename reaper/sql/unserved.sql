-- The txwork tables in some schemas that no reaper has maintained for a day, recognized by the version in their
-- comment, and whether they have ever had a row: a table that never had one has no page. A reaper that cron runs leads
-- for moments only, and maintenance without an election records when it ran.
SELECT n.nspname || '.' || c.relname, c.relkind = 'p' OR coalesce(pg_relation_size(c.oid) > 0, false)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1::text[]) AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
  AND NOT EXISTS (SELECT FROM {{leader}} AS l
                  WHERE l.name = n.nspname || '.' || c.relname AND l.expires_at > now() - interval '1 day')
ORDER BY 1
