-- Calls the purge function, see schema/purge.sql.
SELECT {{.Function "purge"}}($1::text::interval, $2::integer)
