package txworktest

import "testing"

// Bounds of a drain: what passes them does not end.
const (
	// MaxRunsOfRow is how often [Drain] and [DrainAll] let one row be handled. A row has ten attempts by default.
	MaxRunsOfRow = 100
	// MaxRuns is how many runs of handlers there may be in one call.
	MaxRuns = 10_000
)

// RunOne has the worker handle the first row that is due, and returns what became of it. The test ends if none is
// due; the message shows what is there.
//
// It works where it looks: in a transaction, of pgx, all happens in that (see [workqueue.Worker.DrainIn]), otherwise
// the worker's own pool is used and everything commits. Nobody else may work on the table meanwhile.
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

// Drain has the worker handle one row after the other until nothing is due, and returns what became of them, in this
// order. Rows that are put back with a delay stay: see [Advance] and [DrainAll]. So does every row that a handler
// puts back in a transaction: time stands still in it.
//
// It works where it looks, as [RunOne] does. It ends the test if one row is handled more than [MaxRunsOfRow] times,
// as when its handler asks for another attempt at once for ever, or if there are more than [MaxRuns] runs, as when
// each handler enqueues the next row; and on errors of the database, other than a lost connection or lease, which are
// outcomes.
//
// What a worker does beside, such as the schedules of timers, is done, too, and is in the result with its own table.
func Drain(t testing.TB, q Querier, w Worker) []Handled {
	t.Helper()
	r := newRun(t, q, open(t, q, w))
	r.drain()
	return r.handled
}

// DrainAll is [Drain], and whenever nothing is due it moves the clock of the worker's tables to when one of its rows
// is, as [Advance] does: it goes through all retries, to the end. What is left has ended, or waits for something else
// than time, such as a row behind a dead letter of its key. Schedules have no end, and are not waited for.
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
