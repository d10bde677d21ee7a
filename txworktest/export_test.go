package txworktest

import "testing"

// DrainAtMost is Drain with another bound: the real one takes a while to reach.
func DrainAtMost(t testing.TB, q Querier, w Worker, runs int) {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	r.most = runs
	r.drain()
}

// Moves tells which columns Advance moves in a table and those that belong to it.
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
