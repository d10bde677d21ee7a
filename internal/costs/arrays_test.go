package costs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// arrayDomains are the directories whose SQL works on batches of rows.
var arrayDomains = []string{"workqueue", "outbox", "inbox", "timers", "jobs", "reaper"}

// noArrays is the SQL that no domain runs yet, see ADR 0079.
const noArrays = "outbox/internal"

// An arrayStatement is a statement in a .sql file, or in a function there, that takes an array apart or looks for its
// elements.
type arrayStatement struct {
	file  string
	line  int
	text  string     // the line that does so
	parts []linePart // that line and its neighbours, as far as they are the same in every rendering
}

// in reports whether a query that was sent is the statement.
func (s arrayStatement) in(query string) bool {
	for _, part := range s.parts {
		if !part.in(query) {
			return false
		}
	}
	return true
}

var (
	usesArray = regexp.MustCompile(`\bunnest\(|\bANY \((?:[@$\w.]+(?:::[\w\[\]]+)?)\)|_to_recordset\(`)
	isInFile  = regexp.MustCompile(`^\s*(--|CREATE|REVOKE|DROP)|\{\{/\*`) // and in no statement that is planned
	ends      = regexp.MustCompile(`(;|\bTHEN|\bLOOP|\bBEGIN|\bDECLARE|\bELSE|\*/)( *--.*)?$`)
	isAction  = regexp.MustCompile(`\{\{-? ?(if|range|with)\b.*\{\{-? ?end ?-?\}\}|\{\{.*?\}\}|[@$]\w+|::\w+(\[\])?`)
	// PL/pgSQL cuts its own words out of a statement.
	isAround = regexp.MustCompile(`^(\w+ := |PERFORM |RETURN QUERY|FOR \w+ IN |(ELS)?IF (NOT )?|WHILE |EXIT WHEN )|` +
		`( THEN| LOOP|;)( *--.*)?$| --.*$`)
)

// arrayStatements reads all of them.
func arrayStatements(t *testing.T) (list []arrayStatement) {
	t.Helper()
	for _, domain := range arrayDomains {
		root := filepath.Join("..", "..", domain)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".sql" || strings.Contains(path, "testdata") ||
				strings.Contains(filepath.ToSlash(path), noArrays) {
				return err
			}
			source, err := os.ReadFile(path)
			list = append(list, arrayStatementsOf(strings.TrimPrefix(path, "../../"), string(source))...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func arrayStatementsOf(file, source string) (list []arrayStatement) {
	lines := strings.Split(source, "\n")
	for at, line := range lines {
		if isInFile.MatchString(line) || !usesArray.MatchString(line) {
			continue
		}
		first, last := at, at
		for first > 0 && !ends.MatchString(lines[first-1]) && !isInFile.MatchString(lines[first-1]) {
			first--
		}
		for last+1 < len(lines) && !ends.MatchString(lines[last]) {
			last++
		}
		s := arrayStatement{file: file, line: at + 1, text: strings.TrimSpace(line)}
		s.parts = append(nearest(lines[first:at], true), nearest(lines[at:last+1], false)...)
		list = append(list, s)
	}
	return list
}

// nearest returns the last fixed part of some lines, or the first two.
func nearest(lines []string, back bool) (parts []linePart) {
	for _, line := range lines {
		if part := fixedPart(line); part != nil {
			parts = append(parts, part)
		}
	}
	if back {
		return parts[max(0, len(parts)-1):]
	}
	return parts[:min(2, len(parts))]
}

// fixedPart is what a line of a file says in every rendering, or nil.
func fixedPart(line string) linePart {
	line = oneLine(line)
	if strings.HasPrefix(line, "--") || strings.Contains(line, " INTO ") && !strings.Contains(line, "INSERT") {
		return nil
	}
	line = isAround.ReplaceAllString(line, "")
	line = isAround.ReplaceAllString(line, "")
	var literals linePart
	known := 0
	for _, literal := range isAction.Split(line, -1) {
		if literal = strings.TrimSpace(literal); literal != "" {
			literals = append(literals, literal)
		}
		known += len(literal)
	}
	if known < leastKnown {
		return nil
	}
	return literals
}

const (
	leastKnown   = 4   // bytes of a line that tell anything
	mostRendered = 400 // bytes in the place of an action
)

// A linePart is what a line says between its actions and its parameters.
type linePart []string

// in reports whether a query has the texts in their order, with little between them.
func (p linePart) in(query string) bool {
	for {
		at := strings.Index(query, p[0])
		if at < 0 {
			return false
		}
		query = query[at+len(p[0]):]
		rest, found := query, true
		for _, literal := range p[1:] {
			at := strings.Index(rest[:min(len(rest), mostRendered+len(literal))], literal)
			if found = at >= 0; !found {
				break
			}
			rest = rest[at+len(literal):]
		}
		if found {
			return true
		}
	}
}

// oneLine is a text without the differences that rendering makes.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "pg_catalog.", "")), " ")
}

// Reasons why a statement needs no step with many elements.
const (
	ofLanes  = "an element is a lane or a queue of one worker"
	ofTables = "an element is a table or a schema"
	looksUp  = "it joins nothing: it looks its elements up in an index"
	ofLocked = "an element is a row that another session has locked when the notes of one fold are applied"
	ofEnds   = "an element is a join that ends or is repaired, of which one call takes a bounded number"
)

// unplanned are the statements that the test runs with few elements or not at all, by file, or by file and a part of
// the line.
var unplanned = map[string]string{
	"workqueue/sql/ack.sql":            "workers only, see TestSettlesCompareNoRowsInVain",
	"workqueue/sql/ack_delete.sql":     "the join of ack.sql, see TestSettlesCompareNoRowsInVain",
	"workqueue/sql/ack_delete_one.sql": looksUp,
	"workqueue/sql/announce_look.sql":  ofLanes,
	"workqueue/sql/candidates.sql":     ofLanes,
	"workqueue/sql/enqueue_many.sql":   "it joins no table: holders are looked up by their unique values, one by one",
	"workqueue/sql/fetch.sql":          "an element is a lane, a topic or a payload, which is joined with the lanes only",
	"workqueue/sql/find_ids.sql":       "it looks occurrences of schedules up in the primary key",
	"workqueue/sql/insert.sql":         "it joins nothing, and every step that enqueues begins with it",
	"workqueue/sql/look.sql":           ofLanes,
	"workqueue/sql/next_due.sql":       ofLanes,
	"workqueue/sql/run.sql":            "workers only, see TestRunsCompareFewRows",
	"workqueue/sql/settle_run.sql":     "workers only, see TestRunsCompareFewRows",
	"workqueue/sql/sort_out.sql":       ofLanes,
	"workqueue/sql/topics.sql":         "an element is a topic, or a row that one claim sets aside",
	"workqueue/sql/unlocked.sql":       looksUp,
	"jobs/sql/schema/permit.sql":       "it counts slots of one queue, and looks up at most 64",
	"timers/sql/functions.sql":         looksUp,
	"reaper/sql/elect.sql":             ofTables,
	"reaper/sql/unserved.sql":          ofTables,
	"reaper/sql/withdraw.sql":          ofTables,

	"workqueue/sql/settle.sql: = ANY (own.all_kinds) THEN":                            "it compares, and reads no rows",
	"workqueue/join/sql/edges.sql":                                                    looksUp,
	"workqueue/join/sql/schema/apply.sql: = ANY (members)":                            looksUp,
	"workqueue/join/sql/schema/apply.sql: FROM unnest(members, gone) AS u (id, gone)": ofLocked,
	"workqueue/join/sql/schema/apply.sql: FROM unnest(places) AS p (place)":           ofLocked,
	"workqueue/join/sql/schema/apply.sql: FROM unnest(held) AS h (id)":                ofLocked,
	"workqueue/join/sql/schema/apply.sql: FROM unnest(missed)":                        ofLocked,
	"workqueue/join/sql/schema/end.sql: WHERE j.id = ANY ($1) AND c.id":               looksUp,
	"workqueue/join/sql/schema/end.sql: USING unnest(targets, states)":                ofEnds,
	"workqueue/join/sql/schema/finish.sql: FROM unnest(held)":                         ofEnds,
	"workqueue/join/sql/schema/finish.sql: j.status = 0 AND {{.Over \"j\"}}":          looksUp,
	"workqueue/join/sql/schema/finish.sql: unnest(free || held)":                      ofEnds,
	"workqueue/join/sql/schema/sweep.sql":                                             ofEnds,
}

// reason says why a statement is not planned with many elements, and under which key.
func (s arrayStatement) reason() (key string, found bool) {
	for key := range unplanned {
		file, part, _ := strings.Cut(key, ": ")
		if s.file == file && strings.Contains(s.text, part) {
			return key, true
		}
	}
	return "", false
}

// checkAllPlanned checks that the steps so far had plans of every statement in the repository's files that has an
// array, so that a new one is found.
func (g *generic) checkAllPlanned(t *testing.T) {
	t.Helper()
	queries := slices.Collect(maps.Keys(g.seen))
	used := map[string]bool{}
	for _, s := range arrayStatements(t) {
		key, known := s.reason()
		used[key] = true
		if !known && !slices.ContainsFunc(queries, s.in) {
			t.Errorf("%s:%d: no step runs this statement with many elements: %s", s.file, s.line, s.text)
		}
	}
	for key := range unplanned {
		if !used[key] {
			t.Errorf("no statement with an array is %s", key)
		}
	}
}
