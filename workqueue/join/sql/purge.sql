-- See the function.
SELECT {{.Function "purge"}}($1::text::interval, $2::integer)
