-- The tables that have the function fetch of the core, but not its comment.
SELECT c.relname::text AS name
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
  AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %' IS NOT TRUE
  AND EXISTS (
    SELECT FROM pg_proc AS p
    WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_fetch')::name
      AND p.proargnames[:3] = '{owner_token,lease,n}')
ORDER BY c.relname
