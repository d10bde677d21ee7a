-- How many buckets the rows of whole tables have in about the last $2 seconds. What lanes have counted is in them, too,
-- so no more need to be added up.
SELECT coalesce(max(greatest(cardinality(o.waits), cardinality(o.runs))), 0) AS buckets
FROM {{.}} AS o
WHERE o.table_name = ANY ($1::text[]) AND o.lane = '' AND o.step = $3::integer
  AND o.at >= now() - ($2::bigint + $3::integer) * interval '1 second'
