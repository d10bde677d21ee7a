-- The schemas whose functions name another schema, because they were renamed after the migrations had written it into
-- them: the claims of the migrations' core tables name their table in full.
SELECT DISTINCT s.schema, s.names
FROM (
    SELECT n.nspname::text AS schema,
           (regexp_match(p.prosrc, 'UPDATE "([a-z_][a-z0-9_]*)"\."' || c.relname || '"'))[1] AS names
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_proc AS p ON p.pronamespace = c.relnamespace AND p.proname = (c.relname || '_fetch')::name
    WHERE c.relkind IN ('r', 'p') AND c.relname::text = ANY ($1::text[])
      AND pg_catalog.obj_description(c.oid, 'pg_class') LIKE 'txwork core %') AS s
WHERE s.names <> s.schema AND ($2 = s.schema OR $2 = s.names)
ORDER BY s.schema
