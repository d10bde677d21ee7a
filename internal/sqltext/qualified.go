package sqltext

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// named is what a statement may name: a literal, a quoted name or a word, with what is before it and after it.
	named = regexp.MustCompile(`'(?:[^']|'')*'|(?:\bCOLLATE )?"[^"]*"|(?:::|\.|\$|@)?[A-Za-z_0-9]+\(?`)

	// grammar are words before a parenthesis, and types, that belong to the grammar: they mean the same everywhere.
	grammar = []string{"coalesce", "greatest", "least", "nullif", "extract", "substring", "row", "cast", "overlay",
		"position", "trim", "bigint", "boolean", "double", "int", "integer", "interval", "numeric",
		"smallint"}
)

// Qualified names the schema of PostgreSQL's functions, types and collations in a statement. The search_path of the
// session, which is the application's, may name another schema before pg_catalog, such as one that stops the clock in
// tests. Functions have no space before their parenthesis, and nothing else that is written in lower case has one.
// Operators stay as they are.
func Qualified(statement string) string {
	var b strings.Builder
	end := 0
	for _, at := range named.FindAllStringIndex(statement, -1) {
		b.WriteString(statement[end:at[0]])
		end = at[1]
		n := statement[at[0]:at[1]]
		collation, isCollation := strings.CutPrefix(n, "COLLATE ")
		word, isType := strings.CutPrefix(n, "::")
		word, isCall := strings.CutSuffix(word, "(")
		switch {
		case isCollation:
			b.WriteString("COLLATE pg_catalog." + collation)
		case !isType && !isCall, word == "" || word[0] < 'a' || word[0] > 'z', slices.Contains(grammar, word),
			word == "unnest" && takesSeveral(statement[end:]), strings.HasPrefix(statement[end:], "."):
			b.WriteString(n)
		case isType:
			b.WriteString("::pg_catalog." + strings.TrimPrefix(n, "::"))
		default:
			b.WriteString("pg_catalog." + n)
		}
	}
	return b.String() + statement[end:]
}

// takesSeveral reports whether a call has several arguments. The grammar has unnest of several arrays, under no other
// name.
func takesSeveral(args string) bool {
	depth := 0
	for _, c := range args {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				return true
			}
		}
		if depth < 0 {
			break
		}
	}
	return false
}
