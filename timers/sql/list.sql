-- Timers in key order, from the unique index, whose order is that of the bytes: after a key, and within the
-- bounds of a prefix. Of an empty list of states every one is meant.
SELECT {{template "columns" .}}
FROM {{.Table}} AS t
WHERE t.key > $1 AND t.key >= $2 AND t.key <= $3
  AND (cardinality($4::text[]) = 0 OR t.status::text = ANY ($4::text[]))
ORDER BY t.key
LIMIT $5
