-- Ends a pending join that is locked as cancelled, with the reason.
SELECT {{.Function "end"}}(ARRAY[$1::uuid], 3::smallint, $2::text)
