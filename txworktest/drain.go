package txworktest

import "testing"

// Bounds of a drain. A drain that exceeds them would probably never end.
const (
	// MaxRunsOfRow is how often [Drain] and [DrainAll] let one row be handled: more than it has attempts by default.
	MaxRunsOfRow = 200
	// MaxRuns is how many times handlers may run in one call.
	MaxRuns = 10_000
)

// RunOne runs the worker's handler for the first row that is due, and returns what became of the row. It ends the test
// if none is due; the message shows the rows that are there.
//
// If q is a pgx transaction, everything happens in it (see [workqueue.Worker.DrainIn]). Otherwise RunOne uses the
// worker's own pool, and everything commits. No other worker may use the table meanwhile.
func RunOne(t testing.TB, q Querier, w Worker) Handled {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	for found := r.step(); len(found) > 0; found = r.step() {
		for _, h := range found {
			if h.Ran && h.Table == r.table {
				return h
			}
		}
	}
	t.Fatalf("txworktest: nothing of %s is due\n%s", r.table, r.left())
	return Handled{}
}

// Drain runs the worker's handlers for one row after the other until nothing is due, and returns what became of the
// rows, in this order. It does not wait for rows that are put back with a delay: see [Advance] and [DrainAll]. In a
// transaction this applies to every row that a handler puts back, because time stands still there.
//
// It uses q as [RunOne] does. It ends the test if one row is handled more than [MaxRunsOfRow] times, which happens when
// its handler always asks for another attempt at once, or if handlers run more than [MaxRuns] times, which happens when
// each handler enqueues the next row. It also ends the test on errors of the database, except for a lost connection or
// lease, which are outcomes.
//
// Other work of the worker, such as the schedules of timers, is done, too, and is in the result with its own table.
func Drain(t testing.TB, q Querier, w Worker) []Handled {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	r.drain()
	return r.handled
}

// DrainAll is [Drain], but whenever nothing is due it moves the clock of the worker's table, as [Advance] does, to the
// time when the next row is due. It therefore goes through all retries. The rows that are left have ended, or wait for
// something other than time, such as a row behind a dead letter of its key. It does not move the clock of schedules,
// which never end: they fire if they are due when it is called.
func DrainAll(t testing.TB, q Querier, w Worker) []Handled {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	r.drain()
	for idle := 0; r.forward(idle); idle++ {
		before := r.total
		if r.drain(); r.total > before {
			idle = -1
		}
	}
	return r.handled
}
