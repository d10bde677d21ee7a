package postgres

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Literal quotes a text for SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Shell quotes a text for a shell if necessary. What is not printable is escaped as bash and other shells read it, so
// that the text has one line and cannot rewrite a terminal.
func Shell(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:", r))
	}) {
		return s
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsPrint(r) && (r != utf8.RuneError || size > 1):
			b.WriteRune(r)
		default:
			for _, octet := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, octet)
			}
		}
		i += size
	}
	return b.String() + "'"
}
