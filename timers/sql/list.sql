-- Timers in key order, after a key and within the bounds of a prefix. The unique index serves this order, since it
-- compares keys byte by byte. An empty list of statuses or states means all of them.
SELECT {{template "columns" .}}
FROM {{.Table}} AS t
WHERE t.key > $1 AND t.key >= $2 AND t.key <= $3
  AND (cardinality($4::text[]) = 0 OR t.status::text = ANY ($4::text[]))
  AND (cardinality($6::text[]) = 0 OR $6::text[] && {{.StatesOf "t"}})
ORDER BY t.key
LIMIT $5
