-- The tables of txwork in some schemas that no reaper has maintained for a day, by the version that the core writes
-- beside each. A reaper that is run from cron leads for moments, and what is not elected notes when it ran.
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ANY ($1::text[]) AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
  AND NOT EXISTS (SELECT FROM {{leader}} AS l
                  WHERE l.name = n.nspname || '.' || c.relname AND l.expires_at > now() - interval '1 day')
ORDER BY 1
