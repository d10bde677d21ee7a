package txworktest

import (
	"strings"
	"testing"

	"github.com/txwork/txwork/workqueue"
)

// Enqueued returns the rows of a domain that match, in any state, in the order in which they were written.
func Enqueued(t testing.TB, q Querier, d Domain, m ...Matcher) []Row {
	t.Helper()
	return matching(rowsOf(t, q, d.Table()), m)
}

// RequireEnqueued ends the test unless exactly one row matches, and returns that row. The message shows the rows that
// are there.
func RequireEnqueued(t testing.TB, q Querier, d Domain, m ...Matcher) Row {
	t.Helper()
	return RequireCount(t, q, d, 1, m...)[0]
}

// RequireCount ends the test unless exactly n rows match, and returns them.
func RequireCount(t testing.TB, q Querier, d Domain, n int, m ...Matcher) []Row {
	t.Helper()
	all := rowsOf(t, q, d.Table())
	found := matching(all, m)
	if len(found) != n {
		t.Fatalf("txworktest: %s of %s, want %d: %s\n%s", count(len(found)), d.Table().Name(), n, wanted(m),
			describe(all, d.Table().Spec()))
	}
	return found
}

// RequireNone ends the test if a row matches.
func RequireNone(t testing.TB, q Querier, d Domain, m ...Matcher) {
	t.Helper()
	RequireCount(t, q, d, 0, m...)
}

// RequireStatus ends the test unless exactly one row matches and has this status, and returns it.
func RequireStatus(t testing.TB, q Querier, d Domain, s workqueue.Status, m ...Matcher) Row {
	t.Helper()
	row := RequireEnqueued(t, q, d, m...)
	if row.Status != s {
		t.Fatalf("txworktest: the row is %v, want %v: %s\n  %s", row.Status, s, wanted(m), line(row, d.Table().Spec()))
	}
	return row
}

func matching(rows []Row, m []Matcher) []Row {
	var found []Row
	for _, r := range rows {
		if matches(r, m) {
			found = append(found, r)
		}
	}
	return found
}

func matches(r Row, m []Matcher) bool {
	for _, one := range m {
		if !one.match(r) {
			return false
		}
	}
	return true
}

func wanted(m []Matcher) string {
	if len(m) == 0 {
		return "any row"
	}
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.text
	}
	return strings.Join(texts, ", ")
}
