-- Those of the given rights that the session's role lacks, and the schemas that they are in.
SELECT t.schema, t.privilege || ' on ' || t.schema || '.' || t.name
FROM unnest($1::text[], $2::text[], $3::text[]) AS t (schema, name, privilege)
JOIN pg_catalog.pg_namespace AS n ON n.nspname = t.schema
LEFT JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = t.name
WHERE NOT has_schema_privilege(n.oid, 'USAGE') OR c.oid IS NOT NULL AND NOT has_table_privilege(c.oid, t.privilege)
ORDER BY 2
