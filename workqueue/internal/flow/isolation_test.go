package flow

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSuspects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lost   *Losses
		width  int
		others time.Duration
	}{
		{"a row that has lost none", nil, 0, 0},
		{"once together", &Losses{Together: 1}, widthOnce, isolationTime},
		{"twice together", &Losses{Together: 2}, widthTwice, 2 * isolationTime},
		{"three times together", &Losses{Together: 3}, widthAlone, 4 * isolationTime},
		{"once alone", &Losses{Alone: 1}, widthAlone, isolationTime},
		{"an hour ago", &Losses{Together: 1, Ago: suspicion}, 0, 0},
		{"an hour ago, after two", &Losses{Together: 2, Ago: suspicion}, widthTwice, 2 * isolationTime},
		{"more often than the doubling goes", &Losses{Alone: 100, Together: 100}, widthAlone, isolationTime << 9},
	} {
		width, others, is := (&Place{Lost: c.lost}).Suspect()
		if width != c.width || others != c.others || is != (width > 0) {
			t.Errorf("%s: %d rows for %v, want %d for %v", c.name, width, others, c.width, c.others)
		}
	}
}

// flights are rows in flight.
type flights map[*row]bool

func (f flights) Count() int      { return len(f) }
func (f flights) Has(r *row) bool { return f[r] }

// A worker of a test claims rows and takes those that may start.
type worker struct {
	*Buffer[*row]
	flights flights
	back    []*row
}

func newWorker(i *Isolation[*row]) *worker {
	w := &worker{flights: flights{}}
	w.Buffer = New(Options{Concurrency: 20, ClaimLimit: 20}, func(rows []*row) {
		w.back = append(w.back, rows...)
	})
	i.Join(w.Buffer, w.flights)
	return w
}

// claims brings rows, and returns how many of them start.
func (w *worker) claims(t *testing.T, rows ...*row) (started []*row) {
	t.Helper()
	if n := want(w.Buffer); n < len(rows) {
		t.Fatalf("the worker claims %d rows, want %d", n, len(rows))
	}
	for _, r := range rows {
		w.flights[r] = true
	}
	w.Add(rows, len(rows))
	return takeAll(w.Buffer)
}

func (w *worker) ends(rows ...*row) {
	for _, r := range rows {
		w.Finished(r, true)
		delete(w.flights, r)
	}
	w.Settled()
}

// A row that lost a lease alone runs alone: rows of its claim are put back, and no worker claims while it runs.
func TestASuspectRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var i Isolation[*row]
		w, other := newWorker(&i), newWorker(&i)
		suspect := &row{Place{Lost: &Losses{Alone: 1}}}
		if started := w.claims(t, suspect, new(row), new(row)); len(started) != 0 || len(w.back) != 2 {
			t.Errorf("%d rows start and %d are put back, want the suspect to wait until two have been put back",
				len(started), len(w.back))
		}
		if n := want(other.Buffer); n != -1 {
			t.Errorf("another worker claims %d rows beside the suspect", n)
		}
		w.ends(w.back...)
		started := takeAll(w.Buffer)
		if len(started) != 1 || started[0] != suspect {
			t.Fatalf("%d rows start, want the suspect", len(started))
		}
		w.ends(suspect)
		if n := want(other.Buffer); n != 20 {
			t.Errorf("after the suspect another worker claims %d rows, want 20", n)
		}
	})
}

// A suspect for which there is no room is put back, and no worker claims until there is some.
func TestRoomIsReservedForASuspect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var i Isolation[*row]
		w := newWorker(&i)
		running := w.claims(t, new(row))
		if started := w.claims(t, &row{Place{Lost: &Losses{Alone: 1}}}); len(started) != 0 || len(w.back) != 1 {
			t.Errorf("%d rows start and %d are put back, want the suspect to be put back", len(started), len(w.back))
		}
		if n := want(w.Buffer); n != -1 {
			t.Errorf("the worker claims %d rows while room is reserved", n)
		}
		w.ends(w.back...)
		w.ends(running...)
		if n := want(w.Buffer); n != 1 {
			t.Errorf("the worker claims %d rows when the other has ended, want 1", n)
		}
	})
}

// A worker that leaves while a row of its that lost a lease is in flight leaves its room to the others.
func TestAWorkerLeavesWithASuspect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var i Isolation[*row]
		w, other := newWorker(&i), newWorker(&i)
		if started := w.claims(t, &row{Place{Lost: &Losses{Alone: 1}}}); len(started) != 1 {
			t.Fatalf("%d rows start, want 1", len(started))
		}
		wants := make(chan int, 1)
		go func() {
			n, _ := other.Await(t.Context())
			wants <- n
		}()
		synctest.Wait()
		i.Leave(w.Buffer)
		synctest.Wait()
		select {
		case n := <-wants:
			if n != 20 {
				t.Errorf("another worker claims %d rows, want 20", n)
			}
		default:
			t.Error("another worker still waits for room")
			w.ends()
		}
	})
}
