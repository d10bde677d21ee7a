-- See the function.
SELECT {{.Function "take"}}($1::text, $2::uuid[])
