//go:build unix

package torture

import (
	"slices"
	"testing"
)

// A run in which the workers or producers by SQL did nothing shows nothing of them.
func TestACrewThatDidNothingFailsTheRun(t *testing.T) {
	t.Parallel()
	handled := func(n int) map[string]int { return map[string]int{"jobs": n, "outbox": n} }
	for name, c := range map[string]struct {
		enqueued int64
		sql      map[string]int
		goOnly   bool
		want     []string
	}{
		"both work": {enqueued: 1, sql: handled(1)},
		"no producer": {sql: handled(1), want: []string{
			"no row was enqueued by an SQL function, and 1000 by the library; the last error of a function: <nil>"}},
		"none of a table":  {enqueued: 1, sql: map[string]int{"jobs": 1}, want: []string{lazy("outbox")}},
		"there are none":   {sql: map[string]int{}, goOnly: true},
		"none of anything": {enqueued: 1, sql: map[string]int{}, want: []string{lazy("jobs"), lazy("outbox")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, l := &shop{}, &lab{options: Options{GoOnly: c.goOnly}}
			s.enqueued[goCrew].Store(1000)
			s.enqueued[sqlCrew].Store(c.enqueued)
			l.checkCrews(s, &records{handled: [crews]map[string]int{handled(1000), c.sql}})
			slices.Sort(l.failures)
			if !slices.Equal(l.failures, c.want) {
				t.Errorf("the failures are %q, want %q", l.failures, c.want)
			}
		})
	}
}

func lazy(table string) string {
	return "no row of " + table + " was handled by a worker that uses the SQL functions, and 1000 by others"
}
