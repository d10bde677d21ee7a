package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sweep calls the table's own sweeps (Spec.Sweeps), each in a transaction of its own where the Queue is on
// a pool, and returns how many rows they changed. limit bounds each of them. The failure of one does not keep
// the others from theirs. Safe to run anywhere, any number of times.
func (q *Queue) Sweep(ctx context.Context, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	total := 0
	var errs []error
	for _, suffix := range q.table.spec.Sweeps {
		n, err := q.sweepOne(ctx, suffix, limit)
		total += n
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

func (q *Queue) sweepOne(ctx context.Context, suffix string, limit int) (n int, err error) {
	c := call{
		statement: statement{
			name: suffix, params: []string{"max_rows"},
			text: fmt.Sprintf("SELECT %s($1::int)", q.table.view.Function(suffix)),
		},
		args: map[string]any{"max_rows": limit},
		row:  func(scan func(...any) error) error { return scan(&n) },
	}
	err = q.table.telemetry.count(ctx, opSweep, limit, func(ctx context.Context) (int, error) {
		err := q.exec.run(ctx, c)
		return n, err
	})
	return n, err
}

// anyWaiting tells whether rows are held back. It reads the index of such rows only.
func (q *Queue) anyWaiting(ctx context.Context) (found bool, err error) {
	err = q.exec.run(ctx, call{
		statement: statement{
			name: "any_waiting",
			text: "SELECT EXISTS (SELECT FROM " + q.table.view.Table + " AS t WHERE t.completed_at IS NULL AND t.waiting)",
		},
		row: func(scan func(...any) error) error { return scan(&found) },
	})
	return found, err
}

const (
	// sweepLimit bounds the rows that one sweep of a worker changes, and with it how long it holds locks.
	sweepLimit = 1000
	// sweepAtLeastEvery is how long what only a sweep finds may wait.
	sweepAtLeastEvery = time.Second
)

// A sweeper decides when a worker calls its table's sweeps: soon after it was woken, but for no more than a
// fortieth of its time; and once a second in any case, however long they take.
type sweeper struct {
	mu       sync.Mutex
	wanted   bool
	earliest time.Time
	latest   time.Time
}

// want asks for a sweep as soon as the share of time allows it.
func (s *sweeper) want() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
}

// in tells how long until the next sweep.
func (s *sweeper) in(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted {
		return max(s.earliest.Sub(now), 0)
	}
	return max(s.latest.Sub(now), 0)
}

func (s *sweeper) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = false
}

// end plans the next sweep. One that reached its limit has left something.
func (s *sweeper) end(now time.Time, took time.Duration, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.earliest = now.Add(min(max(sweepShare*took, minSweepInterval), sweepAtLeastEvery))
	s.latest = now.Add(sweepAtLeastEvery)
	s.wanted = s.wanted || full
}

// sweep calls the table's sweeps if it is time, and returns how many rows they changed. Should one fail, what can be
// claimed is claimed all the same.
func (w *Worker) sweep(ctx context.Context) (n int) {
	if len(w.table.spec.Sweeps) == 0 || w.sweeper.in(time.Now()) > 0 {
		return 0
	}
	w.sweeper.begin()
	start := time.Now()
	err := w.within(context.WithoutCancel(ctx), w.callLimit(), func(ctx context.Context) (err error) {
		n, err = w.queue.Sweep(ctx, sweepLimit)
		return err
	})
	w.sweeper.end(time.Now(), time.Since(start), n >= sweepLimit)
	if err != nil {
		w.logError(err)
	}
	return n
}
