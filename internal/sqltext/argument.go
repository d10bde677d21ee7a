package sqltext

import (
	"fmt"
	"strings"
)

// RefuseUnless is a statement of PL/pgSQL that refuses an argument of a function unless the condition is true; NULL is
// not true. All functions refuse in this way: with SQLSTATE 22023, the parameter in COLUMN and at the beginning of the
// text, and a hint that says what to do.
func RefuseUnless(condition, parameter, message, hint string) string {
	return fmt.Sprintf(`IF (%s) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = %s,
            MESSAGE = %s,
            HINT = %s;
    END IF;`, condition, Literal(parameter), Literal(parameter+" "+message), Literal(hint))
}

// Literal quotes a text for a function's body.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Bounded refuses a number of rows that is not between 1 and the most that the Go API takes. NULL as a limit would be
// all rows.
func Bounded(param, name string, most int) string {
	return RefuseUnless(fmt.Sprintf("%s BETWEEN 1 AND %d", param, most), name,
		fmt.Sprintf("must be between 1 and %d", most), "Call again for more rows.")
}

// Listed refuses an array that is NULL, has NULL in it, or has more elements than the Go API takes.
func Listed(param, name string, most int) string {
	return RefuseUnless(fmt.Sprintf("coalesce(array_ndims(%[1]s), 1) = 1 AND cardinality(%[1]s) <= %[2]d "+
		"AND array_position(%[1]s, NULL) IS NULL", param, most), name,
		fmt.Sprintf("must be an array of one dimension, of at most %d elements, of which none is NULL", most),
		"Leave out NULL, and call once for each part of a longer array.")
}

// Sized refuses a text that does not have 1 to most bytes, NULL included.
func Sized(param, name string, most int, hint string) string {
	return RefuseUnless(fmt.Sprintf("octet_length(%s) BETWEEN 1 AND %d", param, most), name,
		fmt.Sprintf("must have 1 to %d bytes", most), hint)
}

// Given refuses NULL.
func Given(param, name, hint string) string {
	return RefuseUnless(param+" IS NOT NULL", name, "must not be NULL", hint)
}
