package sqltext

import "fmt"

// recorded is a part of what the renewal of a lease has recorded of the claim that holds a row: when it was claimed, in
// microseconds, within how many it should end, which may be empty, and the token of the claim. Everybody may write
// headers, so what was not written for this claim, or is no number, is NULL. It is computed for tens of thousands of
// rows, and a regular expression for all parts would take hundreds of microseconds for each.
func recorded(row string, part int) string {
	const text = `%[1]s.headers OPERATOR(pg_catalog.->>) 'txwork-running', ' ', `
	return fmt.Sprintf("CASE WHEN pg_catalog.split_part("+text+"3) OPERATOR(pg_catalog.=) %[1]s.owner_token::text "+
		"AND pg_catalog.split_part("+text+"%[2]d) OPERATOR(pg_catalog.~) '^[0-9]{1,16}$' "+
		"THEN pg_catalog.split_part("+text+"%[2]d)::bigint END", row, part)
}

// RunningSince is an expression in SQL: since when a row in progress runs. It is NULL for a row that is not in
// progress, or whose lease has not been renewed yet, or not by this version of the library.
func RunningSince(row string) string {
	return fmt.Sprintf("CASE WHEN %[1]s.status = 1 THEN pg_catalog.to_timestamp(%[2]s / 1000000.0) END", row,
		recorded(row, 1))
}

// RunningWithin is an expression in SQL: within how many seconds the row should end, byDefault if nobody said so, and
// NULL if it need not.
func RunningWithin(row, byDefault string) string {
	return fmt.Sprintf("nullif(coalesce((%s) / 1000000::float8, %s), 0)", recorded(row, 2), byDefault)
}

// RunningFor is an expression in SQL: for how many seconds a row in progress has run, see [RunningSince].
func RunningFor(row string) string {
	return fmt.Sprintf("pg_catalog.date_part('epoch', pg_catalog.now() - (%s))", RunningSince(row))
}

// LostLeases is an expression in SQL: how many leases a row has lost, alone or together with other rows of its process.
// Everybody may write headers, so what is no small number is 0.
func LostLeases(row, how string) string {
	return fmt.Sprintf("coalesce(pg_catalog.\"substring\"(%s.headers OPERATOR(pg_catalog.->>) 'txwork-lost-%s', '^[0-9]{1,4}$')::bigint, 0)",
		row, how)
}
