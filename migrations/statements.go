package migrations

import "strings"

// statements splits the text of a migration. A statement ends at a line that ends in a semicolon, outside of a
// dollar-quoted body. Comments before a statement are left out.
func statements(text string) (all []string) {
	var b strings.Builder
	body := false
	for line := range strings.Lines(text) {
		if b.Len() == 0 && (strings.HasPrefix(line, "--") || strings.TrimSpace(line) == "") {
			continue
		}
		b.WriteString(line)
		if strings.Count(line, bodyQuote)%2 == 1 {
			body = !body
		}
		if !body && strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(b.String()), ";"))
			b.Reset()
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" {
		all = append(all, rest)
	}
	return all
}

// clauses splits what an ALTER TABLE does at its commas, except those in parentheses and strings.
func clauses(text string) (all []string) {
	depth, from, quoted := 0, 0, false
	for i, c := range text {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			all, from = append(all, strings.TrimSpace(text[from:i])), i+1
		}
	}
	return append(all, strings.TrimSpace(text[from:]))
}
