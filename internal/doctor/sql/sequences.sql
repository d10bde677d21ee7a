-- The identity and serial columns of the schema's tables that have an index from which to read their greatest value.
SELECT format('%I.%I', n.nspname, s.relname) AS sequence, format('%I.%I', n.nspname, c.relname) AS table,
       quote_ident(a.attname) AS column
FROM pg_class AS s
JOIN pg_namespace AS n ON n.oid = s.relnamespace
JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype IN ('a', 'i')
    AND d.refclassid = 'pg_class'::regclass
JOIN pg_class AS c ON c.oid = d.refobjid
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE n.nspname = $1 AND s.relkind = 'S'
  AND EXISTS (
    SELECT FROM pg_index AS i
    WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL)
ORDER BY 1
LIMIT $2::int
