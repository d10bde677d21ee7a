// Package postgres knows what a PostgreSQL server can store: names, texts, JSON and the types of columns.
package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ColumnTypes are the types that a domain column may have: those that every driver can bind as an array.
var ColumnTypes = []string{
	"bigint", "boolean", "bytea", "date", "double precision", "integer", "jsonb",
	"numeric", "smallint", "text", "timestamptz", "uuid",
}

// IdentifierLimit is PostgreSQL's NAMEDATALEN - 1: a longer name is silently truncated, and two truncated names
// collide.
const IdentifierLimit = 63

var identifierPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Identifier says why name cannot be an identifier, or returns an empty string. Identifiers have lower-case letters,
// digits and underscores, do not start with a digit, and have at most [IdentifierLimit] bytes.
func Identifier(name string) (problem string) {
	switch {
	case name == "":
		return "is empty: it needs a name"
	case len(name) > IdentifierLimit:
		return fmt.Sprintf("%q has %d bytes, PostgreSQL cuts names at %d", name, len(name), IdentifierLimit)
	case !identifierPattern.MatchString(name):
		return fmt.Sprintf("%q must match [a-z_][a-z0-9_]*", name)
	}
	return ""
}

// Text says what keeps PostgreSQL from storing s as text, or returns an empty string.
func Text(s string) (problem string) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Sprintf("has a NUL byte at offset %d, which PostgreSQL text cannot hold", i)
	}
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	return ""
}
