package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Literal quotes a text for SQL that people run. What is not printable is escaped, so that the text has one line and
// cannot rewrite a terminal.
func Literal(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteString("E'")
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(string(r) + string(r))
		case unprintable(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + "'"
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Shell quotes a text for a shell if necessary. What is not printable is escaped as bash and other shells read it, so
// that the text has one line and cannot rewrite a terminal.
func Shell(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:", r))
	}) {
		return s
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) {
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

// Name is how a name is printed for people: in full, and two different names differently. It quotes as Go does what is
// not printable, what a table on a terminal prints for no name, and spaces that a reader would not see.
func Name(name string) string {
	if name == "" || name == "-" || name[0] == '"' || name != strings.TrimSpace(name) || strings.Contains(name, "  ") ||
		strings.ContainsFunc(name, unprintable) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// Visible escapes characters that are not printable, so that a text cannot rewrite where it is shown.
func Visible(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unprintable(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}
