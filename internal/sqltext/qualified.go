package sqltext

import (
	"slices"
	"strings"
)

// grammar are words before a parenthesis, and types, that belong to the grammar: they mean the same everywhere.
var grammar = []string{"coalesce", "greatest", "least", "nullif", "extract", "substring", "row", "cast", "overlay",
	"position", "trim", "bigint", "boolean", "double", "int", "integer", "interval", "numeric",
	"smallint"}

// Qualified names the schema of PostgreSQL's functions, types and collations in a statement. The search_path of the
// session, which is the application's, may name another schema before pg_catalog, such as one that stops the clock in
// tests. Functions have no space before their parenthesis, and nothing else that is written in lower case has one.
// Operators stay as they are.
func Qualified(statement string) string {
	var b strings.Builder
	for len(statement) > 0 {
		n := named(statement)
		statement = statement[len(n):]
		collation, isCollation := strings.CutPrefix(n, `COLLATE `)
		word, isType := strings.CutPrefix(n, "::")
		word, isCall := strings.CutSuffix(word, "(")
		switch {
		case isCollation:
			b.WriteString("COLLATE pg_catalog." + collation)
		case !isType && !isCall, word == "" || word[0] < 'a' || word[0] > 'z', slices.Contains(grammar, word),
			word == "unnest" && takesSeveral(statement), strings.HasPrefix(statement, "."):
			b.WriteString(n)
		case isType:
			b.WriteString("::pg_catalog." + strings.TrimPrefix(n, "::"))
		default:
			b.WriteString("pg_catalog." + n)
		}
	}
	return b.String()
}

// named is what a statement begins with: a literal, a quoted name or a word, with what is before it and after it, or
// one other character. Every process reads all its statements, so this is no regular expression.
func named(statement string) string {
	collate := 0
	if strings.HasPrefix(statement, `COLLATE "`) {
		collate = len("COLLATE ")
	}
	switch quote := statement[collate]; quote {
	case '\'', '"': // two quotes in a literal are two literals
		if end := strings.IndexByte(statement[collate+1:], quote); end >= 0 {
			return statement[:collate+1+end+1]
		}
		return statement[:1]
	}
	begin := 0
	switch {
	case strings.HasPrefix(statement, "::"):
		begin = 2
	case strings.IndexByte(".$@", statement[0]) >= 0:
		begin = 1
	}
	end := begin
	for end < len(statement) && isWord(statement[end]) {
		end++
	}
	switch {
	case end == begin:
		return statement[:1]
	case end < len(statement) && statement[end] == '(':
		end++
	}
	return statement[:end]
}

func isWord(c byte) bool {
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
