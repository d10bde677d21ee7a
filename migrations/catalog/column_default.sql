-- The default of a column as an expression of its type. No row: there is no such column, or it is computed from others.
SELECT coalesce('(' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) || ')', 'NULL') || '::'
    || pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute AS a
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1::text::pg_catalog.regclass AND a.attname = $2 AND NOT a.attisdropped AND a.attgenerated = ''
