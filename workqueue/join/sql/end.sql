-- See the function: ends those of the joins that are over, or all with the verdict.
SELECT {{.Function "end"}}($1::uuid[], $2::smallint, $3::text)
