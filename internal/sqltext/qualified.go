package sqltext

import (
	"slices"
	"strings"
)

// grammar are words before a parenthesis, and types, that belong to the grammar: they mean the same everywhere.
var grammar = []string{"coalesce", "greatest", "least", "nullif", "extract", "substring", "row", "cast", "overlay",
	"position", "trim", "bigint", "boolean", "double", "int", "integer", "interval", "numeric", "smallint"}

// Qualified names the schema of PostgreSQL's functions, types and collations in a statement. The search_path of the
// session, which is the application's, may name another schema before pg_catalog, such as one that stops the clock in
// tests. Functions have no space before their parenthesis, and nothing else that is written in lower case has one.
// Operators stay as they are.
func Qualified(statement string) string {
	var b strings.Builder
	for rest := statement; rest != ""; {
		n := token(rest)
		rest = rest[len(n):]
		collation, isCollation := strings.CutPrefix(n, collate)
		word, isType := strings.CutPrefix(n, "::")
		word, isCall := strings.CutSuffix(word, "(")
		switch {
		case isCollation:
			b.WriteString(collate + "pg_catalog." + collation)
		case !isType && !isCall, word == "" || word[0] < 'a' || word[0] > 'z', slices.Contains(grammar, word),
			word == "unnest" && takesSeveral(rest), strings.HasPrefix(rest, "."):
			b.WriteString(n)
		case isType:
			b.WriteString("::pg_catalog." + strings.TrimPrefix(n, "::"))
		default:
			b.WriteString("pg_catalog." + n)
		}
	}
	return b.String()
}

const collate = "COLLATE "

// token returns what a statement begins with: a literal, a quoted name or a word, with what is before it and after it,
// or else one byte. It is no regular expression: for each match, package regexp clears a bitmap as long as the
// statement, which was two thirds of the time in which a table is opened.
func token(s string) string {
	quote := 0
	if strings.HasPrefix(s, collate+`"`) {
		quote = len(collate)
	}
	if c := s[quote]; c == '\'' || c == '"' {
		if n := strings.IndexByte(s[quote+1:], c); n >= 0 {
			return s[:quote+n+2] // another literal follows if the quote is doubled
		}
	}
	start := 0
	switch {
	case strings.HasPrefix(s, "::"):
		start = 2
	case strings.IndexByte(".$@", s[0]) >= 0:
		start = 1
	}
	end := start
	for end < len(s) && inWord(s[end]) {
		end++
	}
	if end == start {
		return s[:1]
	}
	if strings.HasPrefix(s[end:], "(") {
		end++
	}
	return s[:end]
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
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
