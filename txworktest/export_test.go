package txworktest

import "testing"

// DrainAtMost is Drain with a smaller bound, because the real one takes long to reach.
func DrainAtMost(t testing.TB, q Querier, w Worker, runs int) {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	r.most = runs
	r.drain()
}

// Moves returns the columns that Advance moves, in all tables of the schema.
func Moves(t testing.TB, q Querier, schema string) map[string]bool {
	t.Helper()
	moved := map[string]bool{}
	for _, c := range clocksOf(query(t, q, selectTimes, schema)) {
		for _, name := range append(c.live, c.ended...) {
			moved[c.table+"."+name] = true
		}
	}
	return moved
}
