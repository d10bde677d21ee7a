-- Timers after a key and within the bounds of a prefix; keys are compared byte by byte. An empty list of states means
-- all of them. Conditions that the states imply follow, then the order of the keys and the limit.
SELECT {{template "columns" .}}
FROM {{.Table}} AS t
WHERE t.key > $1 AND t.key >= $2 AND t.key <= $3
  AND (cardinality($5::text[]) = 0 OR $5::text[] && {{.StatesOf "t"}})
