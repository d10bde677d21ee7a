-- The core's tables in a schema, or those with the names $2, recognized by their comments, with facts from the catalog
-- and the statistics. The lanes are the parameters of the table's fetch between the first three and the last three,
-- which every fetch has; the retention is the default of its purge. The threshold of autovacuum is its fixed number
-- plus its share of the rows. The statistics come from functions: the view of them reads those of all tables.
SELECT c.relname::text AS name,
       EXISTS (SELECT FROM pg_class AS f
           WHERE f.relnamespace = c.relnamespace AND f.relrowsecurity
             AND (f.oid = c.oid OR starts_with(f.relname::text, c.relname || '_'))
             AND row_security_active(f.oid)) AS filtered,
       c.relrowsecurity AND (c.relkind = 'p' OR coalesce(pg_relation_size(c.oid) > 0, false)) AS secured,
       ARRAY(SELECT a.attname::text FROM pg_attribute AS a
           WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       coalesce((SELECT p.proargnames[4:cardinality(p.proargnames) - 3] FROM pg_proc AS p
           WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_fetch')::name
           ORDER BY p.oid LIMIT 1), '{}')::text[] AS lanes,
       ARRAY(SELECT format_type(a.atttypid, a.atttypmod)
           FROM unnest((SELECT p.proargnames[4:cardinality(p.proargnames) - 3] FROM pg_proc AS p
               WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_fetch')::name
               ORDER BY p.oid LIMIT 1)) WITH ORDINALITY AS l (name, place)
           JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = l.name::name
           ORDER BY l.place) AS types,
       extract(epoch FROM (SELECT substring(pg_get_function_arg_default(p.oid, 2) FROM '''([^'']+)''')::interval
           FROM pg_proc AS p
           WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_purge')::name
           ORDER BY p.oid LIMIT 1))::float8 AS retention,
       coalesce(i.reltuples, 0)::float8 AS live,
       i.indexrelid IS NOT NULL AS indexed,
       coalesce(c.reloptions, '{}')::text[] AS options,
       coalesce(pg_stat_get_dead_tuples(c.oid), 0) AS dead,
       (coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) AS o
                   WHERE o.option_name = 'autovacuum_vacuum_threshold'),
               current_setting('autovacuum_vacuum_threshold'))::float8
           + coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) AS o
                   WHERE o.option_name = 'autovacuum_vacuum_scale_factor'),
               current_setting('autovacuum_vacuum_scale_factor'))::float8 * greatest(c.reltuples, 0)) AS threshold,
       extract(epoch FROM clock_timestamp() - greatest(pg_stat_get_last_autovacuum_time(c.oid),
           pg_stat_get_last_vacuum_time(c.oid)))::float8 AS vacuumed,
       EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.relid = c.oid) AS vacuuming,
       c.relpages::bigint * current_setting('block_size')::bigint AS bytes,
       coalesce((SELECT p.prosrc LIKE '%DELETE FROM%' FROM pg_proc AS p
           WHERE p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_settle_rows')::name
           ORDER BY p.oid LIMIT 1), false) AS deletes,
       coalesce(pg_stat_get_tuples_deleted(c.oid), 0) AS deleted
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
    SELECT x.indexrelid, ic.reltuples
    FROM pg_index AS x JOIN pg_class AS ic ON ic.oid = x.indexrelid
    WHERE x.indrelid = c.oid AND ic.relname = (c.relname || '_claim_idx')::name AND x.indisvalid
) AS i ON true
WHERE n.nspname = $1 AND ($2::text[] IS NULL OR c.relname = ANY ($2::text[]))
  AND c.relkind IN ('r', 'p') AND obj_description(c.oid, 'pg_class') LIKE 'txwork core %'
ORDER BY c.relname
