package mutation

import (
	"regexp"
	"slices"
	"strings"
)

// A guard is a condition, or a lock, in the text of an SQL template.
type guard struct {
	offset int
	text   string
	new    string // the text that replaces it
}

// findGuards finds every condition of every WHERE and CHECK and of every trigger's WHEN, split where AND joins its
// parts, and every IF of a function, every row lock and every SKIP LOCKED. It reads templates: a control action such as
// {{range}} ends a part, and so it may stand between two parts. These are not guards:
//
//   - conditions of a FILTER, which count, and of an index that is not unique, which only serves a plan;
//   - parts that name rows: without them a statement does something entirely different, which is no subtle loss;
//   - completed_at IS NULL beside a status, from which it follows (the table's CHECK): it only leads to an index.
func findGuards(sql string) (guards []guard) {
	code := blankComments(sql)
	for _, at := range clause.FindAllStringIndex(code, -1) {
		if !counts(code, at[0]) && !isIndex(code, at[0]) {
			guards = append(guards, telling(parts(code, sql, at[1]))...)
		}
	}
	for _, at := range decision.FindAllStringSubmatchIndex(code, -1) {
		guards = append(guards, guard{offset: at[2], text: sql[at[2]:at[3]], new: "false"})
	}
	for _, locks := range []*regexp.Regexp{rowLock, skipLocked} {
		for _, at := range locks.FindAllStringIndex(code, -1) {
			guards = append(guards, guard{offset: at[0], text: sql[at[0]:at[1]]})
		}
	}
	return guards
}

var (
	clause     = regexp.MustCompile(`\bWHERE\s+|\bCHECK\s*\(\s*|\bFOR EACH ROW WHEN\s*\(\s*`)
	decision   = regexp.MustCompile(`(?m)^\s*(?:ELS)?IF\s+((?s:.+?))\s+THEN\b`)
	rowLock    = regexp.MustCompile(`\s+FOR (?:NO KEY UPDATE|UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?`)
	skipLocked = regexp.MustCompile(` SKIP LOCKED`)
	comment    = regexp.MustCompile(`--[^\n]*`)
	// stop is what ends a condition at its own depth: the next clause, a statement, a control action.
	stop = regexp.MustCompile(`^(?:ORDER BY|GROUP BY|RETURNING|LIMIT|FOR (?:NO|KEY|UPDATE|SHARE)|UNION|HAVING|` +
		`ON CONFLICT|DO NOTHING|LOOP|THEN|EXECUTE|;|,|\{\{-?\s*(?:if|range|end|else)\b)`)
	// picksRows is the outer condition of a statement whose guards are in its subquery.
	picksRows = regexp.MustCompile(`^\w+\.ctid = ANY \(ARRAY\(`)

	// names matches a part that selects rows by name rather than by state.
	names  = regexp.MustCompile(`^(\w+\.)?(id|\w+_id|key|concurrency_key|name|queue|schedule) = `)
	status = regexp.MustCompile(`^\w+\.status = [01]$`)

	and = regexp.MustCompile(`^AND\b`)
	or  = regexp.MustCompile(`^OR\b`)
)

// counts tells whether a clause is inside a FILTER.
func counts(code string, at int) bool {
	return strings.HasSuffix(strings.TrimRight(code[:at], " "), "FILTER (")
}

// isIndex tells whether a clause belongs to an index.
func isIndex(code string, at int) bool {
	statement := code[strings.LastIndex(code[:at], ";")+1 : at]
	return strings.Contains(statement, "CREATE INDEX")
}

// telling drops the parts that are not guards.
func telling(parts []guard) (guards []guard) {
	implied := slices.ContainsFunc(parts, func(g guard) bool { return status.MatchString(g.text) })
	for _, g := range parts {
		if !names.MatchString(g.text) && !(implied && strings.HasSuffix(g.text, "completed_at IS NULL")) {
			guards = append(guards, g)
		}
	}
	return guards
}

// blankComments replaces comments by spaces, which keeps every offset.
func blankComments(sql string) string {
	return comment.ReplaceAllStringFunc(sql, func(c string) string { return strings.Repeat(" ", len(c)) })
}

// parts returns the parts of the condition that begins at the offset. A condition with an OR at its top level is a
// single part.
func parts(code, sql string, begin int) (guards []guard) {
	var bounds []int // alternating begin and end of each part
	from, whole, depth, between, alternatives := begin, begin, 0, false, false
	i := begin
scan:
	for ; i < len(code); i++ {
		rest := code[i:]
		switch {
		case code[i] == '\'':
			i += strings.IndexByte(code[i+1:], '\'') + 1
		case code[i] == '(' || code[i] == '[':
			depth++
		case (code[i] == ')' || code[i] == ']') && depth == 0:
			break scan
		case code[i] == ')' || code[i] == ']':
			depth--
		case depth > 0:
		case stop.MatchString(rest) && (wordStart(code, i) || code[i] == '{'):
			if strings.HasPrefix(rest, "{{") && control(code, i) {
				if from >= 0 {
					bounds = append(bounds, from, i)
				}
				from = -1
				i = skipControl(code, i) - 1
				continue
			}
			break scan
		case strings.HasPrefix(rest, "BETWEEN"):
			between = true
		case wordStart(code, i) && or.MatchString(rest):
			alternatives = true
		case wordStart(code, i) && and.MatchString(rest) && between:
			between = false
		case wordStart(code, i) && and.MatchString(rest):
			if from >= 0 {
				bounds = append(bounds, from, i)
			}
			from = i + len("AND")
		}
	}
	if from >= 0 {
		bounds = append(bounds, from, i)
	}
	if alternatives {
		bounds = []int{whole, i}
	}
	for b := 0; b < len(bounds); b += 2 {
		guards = append(guards, trimmed(sql, bounds[b], bounds[b+1])...)
	}
	return guards
}

// control tells whether the condition continues after a control action: with AND or another action.
func control(code string, i int) bool {
	rest := strings.TrimSpace(code[skipControl(code, i):])
	return strings.HasPrefix(rest, "AND ") || strings.HasPrefix(rest, "{{")
}

func skipControl(code string, i int) int { return i + strings.Index(code[i:], "}}") + 2 }

func wordStart(code string, i int) bool {
	return i == 0 || !isWord(code[i-1]) || !isWord(code[i])
}

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func trimmed(sql string, from, to int) []guard {
	text := strings.TrimSpace(sql[from:to])
	if c := strings.Index(text, "--"); c >= 0 {
		text = strings.TrimSpace(text[:c])
	}
	if text == "" || picksRows.MatchString(text) {
		return nil
	}
	return []guard{{offset: from + strings.Index(sql[from:], text), text: text, new: "true"}}
}
