-- The side tables whose row-level security is not that of the table whose rows they describe, and what makes it so.
SELECT t.relname::text AS name, t.relrowsecurity AS secured,
       array_agg(s.relname::text ORDER BY s.relname) AS sides,
       array_agg(DISTINCT format('SELECT %I.%I();', $1::text, p.proname)) AS remedies
FROM pg_class AS t
JOIN pg_namespace AS n ON n.oid = t.relnamespace
CROSS JOIN (VALUES
    ('_key_note', '_key_policies'), ('_key_state', '_key_policies'), ('_key_cursor', '_key_policies'),
    ('_join', '_join_policies'), ('_join_member', '_join_policies'), ('_join_note', '_join_policies'),
    ('_join_cursor', '_join_policies'),
    ('_topic', '_topic_policies'),
    ('_attempt', '_policies'), ('_step', '_policies'), ('_queue', '_policies'), ('_start', '_policies'),
    ('_slot', '_policies')) AS v (side, function)
JOIN pg_class AS s ON s.relnamespace = n.oid AND s.relname = (t.relname || v.side)::name
JOIN pg_proc AS p ON p.pronamespace = n.oid AND p.proname = (t.relname || v.function)::name
WHERE n.nspname = $1 AND obj_description(t.oid, 'pg_class') LIKE 'txwork core %'
  AND s.relrowsecurity <> t.relrowsecurity
GROUP BY t.relname, t.relrowsecurity
ORDER BY t.relname
