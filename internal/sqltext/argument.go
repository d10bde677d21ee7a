package sqltext

import (
	"fmt"
	"strings"
)

// RefuseUnless is a statement of PL/pgSQL that refuses an argument of a function unless the condition is true; NULL is
// not true. All functions refuse in this way: with SQLSTATE 22023, the parameter in COLUMN and at the beginning of the
// text, and a hint that says what to do.
func RefuseUnless(condition, parameter, message, hint string) string {
	literal := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return fmt.Sprintf(`IF (%s) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', COLUMN = %s,
            MESSAGE = %s,
            HINT = %s;
    END IF;`, condition, literal(parameter), literal(parameter+" "+message), literal(hint))
}
