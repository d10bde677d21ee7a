-- The objects of a schema, one row each, and the bodies of functions apart, since these are long. A fact that does not
-- hold, or has no value, is absent. The session's settings influence how PostgreSQL prints expressions: see pin.sql. It
-- locks nothing and needs no right but to connect.
--
-- Partitions have only their bounds: all else is their parent's. The shift of a log, which a rebase raises, counts as
-- 0.
WITH here AS (
    SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $1
),
relation AS (
    SELECT c.* FROM pg_class AS c JOIN here ON here.oid = c.relnamespace
),
shifted (xid, unshifted, guard, unguarded) AS (
    VALUES ('(pg_current_xact_id\(\)\)::text\)::bigint \+) ''?[0-9]+''?(::bigint)?', '\1 0',
        '(outbox_log_guard\()''[0-9]+''', '\1''0''')
),
found (kind, parent, place, name, facts, body) AS (
    SELECT 'domain', '', 0, t.typname::text, jsonb_build_object(
        'type', format_type(t.typbasetype, t.typtypmod),
        'NOT NULL', CASE WHEN t.typnotnull THEN 'yes' END,
        'default', t.typdefault), NULL
    FROM pg_type AS t JOIN here ON here.oid = t.typnamespace
    WHERE t.typtype = 'd'

    UNION ALL
    SELECT 'domain constraint', t.typname::text, 0, c.conname::text, jsonb_build_object(
        'definition', regexp_replace(pg_get_constraintdef(c.oid), ' NOT VALID$', ''),
        'NOT VALID', CASE WHEN NOT c.convalidated THEN 'yes' END), NULL
    FROM pg_constraint AS c JOIN pg_type AS t ON t.oid = c.contypid JOIN here ON here.oid = t.typnamespace
    WHERE c.contype <> 'n' -- a NOT NULL, which PostgreSQL 18 lists among constraints too

    UNION ALL
    SELECT 'type', '', 0, c.relname::text, jsonb_build_object(
        'definition', (SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                ORDER BY a.attnum)
            FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)), NULL
    FROM relation AS c
    WHERE c.relkind = 'c'

    UNION ALL -- sequences of identity columns are left out: the column reports them
    SELECT 'sequence', '', 0, c.relname::text, jsonb_build_object(
        'definition', format('AS %s START WITH %s INCREMENT BY %s MINVALUE %s MAXVALUE %s CACHE %s%s',
            format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache,
            CASE WHEN s.seqcycle THEN ' CYCLE' ELSE ' NO CYCLE' END)), NULL
    FROM relation AS c JOIN pg_sequence AS s ON s.seqrelid = c.oid
    WHERE NOT EXISTS (
        SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
          AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i')

    UNION ALL
    SELECT 'table', '', 0, c.relname::text, jsonb_build_object(
        'kind', CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view'
            WHEN 'm' THEN 'materialized view' ELSE 'foreign table' END,
        'partition key', pg_get_partkeydef(c.oid),
        'partition of', (SELECT p.relname || ' ' || pg_get_expr(c.relpartbound, c.oid)
            FROM pg_inherits AS i JOIN pg_class AS p ON p.oid = i.inhparent
            WHERE c.relispartition AND i.inhrelid = c.oid),
        'UNLOGGED', CASE WHEN c.relpersistence = 'u' THEN 'yes' END,
        'replica identity', CASE WHEN c.relreplident = 'f' -- for a table with a primary key, operators choose it
            AND NOT EXISTS (SELECT FROM pg_constraint AS n WHERE n.conrelid = c.oid AND n.contype = 'p')
            THEN 'FULL' END,
        'core version', substring(obj_description(c.oid, 'pg_class') FROM '^txwork core ([0-9][^;]*)'),
        'version', substring(obj_description(c.oid, 'pg_class')
            FROM '^txwork (?:alarms|leader|outbox_log|process) ([0-9][^;]*)'),
        'storage parameters', (SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(c.reloptions) AS o)), NULL
    FROM relation AS c
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')

    UNION ALL
    SELECT 'column', c.relname::text, a.attnum, a.attname::text, jsonb_build_object(
        'type', format_type(a.atttypid, a.atttypmod),
        'collation', CASE WHEN a.attcollation <> t.typcollation THEN
            (SELECT quote_ident(l.collname) FROM pg_collation AS l WHERE l.oid = a.attcollation) END,
        'NOT NULL', CASE WHEN a.attnotnull THEN 'yes' END,
        'default', CASE WHEN a.attgenerated = '' THEN
            regexp_replace(pg_get_expr(d.adbin, d.adrelid), s.xid, s.unshifted) END,
        'generation', CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END,
        'identity', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END), NULL
    FROM relation AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type AS t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    CROSS JOIN shifted AS s
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition

    UNION ALL
    SELECT 'constraint', c.relname::text, 0, n.conname::text, jsonb_build_object(
        'definition', regexp_replace(regexp_replace(pg_get_constraintdef(n.oid), ' NOT VALID$', ''), s.xid,
            s.unshifted),
        'NOT VALID', CASE WHEN NOT n.convalidated THEN 'yes' END,
        'invalid', CASE WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'yes' END), NULL
    FROM relation AS c
    JOIN pg_constraint AS n ON n.conrelid = c.oid AND n.contype NOT IN ('n', 't') -- NOT NULL, constraint triggers
    LEFT JOIN pg_index AS i ON i.indexrelid = n.conindid AND n.contype IN ('p', 'u', 'x')
    CROSS JOIN shifted AS s
    WHERE NOT c.relispartition

    UNION ALL -- the constraints report their own indexes; storage parameters are the operators' choice
    SELECT 'index', '', 0, x.relname::text, jsonb_build_object(
        'table', c.relname,
        'UNIQUE', CASE WHEN i.indisunique THEN 'yes' END,
        'definition', regexp_replace(regexp_replace(pg_get_indexdef(x.oid), ' WITH [(][^()]*[)]', ''), ' ON ONLY ',
            ' ON '),
        'invalid', CASE WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'yes' END), NULL
    FROM relation AS c
    JOIN pg_index AS i ON i.indrelid = c.oid
    JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE c.relkind <> 't' AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM pg_constraint AS n WHERE n.conindid = x.oid AND n.contype IN ('p', 'u', 'x'))

    UNION ALL -- the body is compared with the migrations' own text
    SELECT 'function', '', 0, format('%I(%s)', p.proname, oidvectortypes(p.proargtypes)), jsonb_build_object(
        'kind', CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'f' THEN 'function' ELSE 'aggregate' END,
        'arguments', pg_get_function_arguments(p.oid),
        'result', pg_get_function_result(p.oid),
        'language', l.lanname,
        'volatility', CASE p.provolatile WHEN 'i' THEN 'IMMUTABLE' WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END,
        'STRICT', CASE WHEN p.proisstrict THEN 'yes' END,
        'SECURITY DEFINER', CASE WHEN p.prosecdef THEN 'yes' END,
        'parallel safety', CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END,
        'settings', array_to_string(p.proconfig, '; ')), p.prosrc
    FROM pg_proc AS p JOIN here ON here.oid = p.pronamespace JOIN pg_language AS l ON l.oid = p.prolang

    UNION ALL
    SELECT 'trigger', c.relname::text, 0, t.tgname::text, jsonb_build_object(
        'definition', regexp_replace(pg_get_triggerdef(t.oid), s.guard, s.unguarded),
        'disabled', CASE WHEN t.tgenabled NOT IN ('O', 'A') THEN 'yes' END), NULL
    FROM relation AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid AND NOT t.tgisinternal
    CROSS JOIN shifted AS s
    WHERE NOT c.relispartition

    UNION ALL
    SELECT 'rule', c.relname::text, 0, r.rulename::text, '{}', NULL
    FROM relation AS c JOIN pg_rewrite AS r ON r.ev_class = c.oid
    WHERE c.relkind IN ('r', 'p')
)
SELECT f.kind, f.parent, f.name, jsonb_strip_nulls(f.facts), f.body
FROM found AS f
ORDER BY array_position(ARRAY['domain', 'domain constraint', 'type', 'sequence', 'table', 'column', 'constraint',
        'index', 'function', 'trigger', 'rule'], f.kind),
    f.kind = 'constraint' AND f.facts ->> 'definition' LIKE 'FOREIGN KEY %', -- behind what they refer to
    f.parent COLLATE "C", f.place, f.name COLLATE "C";
