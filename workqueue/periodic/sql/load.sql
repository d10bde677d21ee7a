-- The schedule that a scheduler has claimed, with the version of its row. Reads only. A decision that is based on it is
-- valid as long as lock.sql finds the same version. The row is not locked here because its template may be large: a
-- client that stops receiving must not hold a lock meanwhile.
SELECT {{template "columns" .}}, clock_timestamp(), t.xmin::text
FROM {{.Table}} AS t
WHERE t.id = $1
