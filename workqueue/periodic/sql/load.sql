-- The schedule that a scheduler has claimed, with the version of its row: reads only. What is decided by it holds as
-- long as lock.sql finds the same version. A template is large: it is not sent while the row is locked, when nobody
-- may be there to receive it.
SELECT {{template "columns" .}}, clock_timestamp(), t.xmin::text
FROM {{.Table}} AS t
WHERE t.id = $1
