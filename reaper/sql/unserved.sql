-- The tables of txwork in some schemas that no reaper has maintained for a day, by the version that the core writes
-- beside each, and whether they have ever had a row: one that has not has no page. A reaper that is run from cron leads
-- for moments, and what is not elected notes when it ran.
SELECT n.nspname || '.' || c.relname, c.relkind = 'p' OR coalesce(pg_relation_size(c.oid) > 0, false)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1::text[]) AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
  AND NOT EXISTS (SELECT FROM {{leader}} AS l
                  WHERE l.name = n.nspname || '.' || c.relname AND l.expires_at > now() - interval '1 day')
ORDER BY 1
