package workqueue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// A gauge counts the handlers that run, and lets them finish one by one.
type gauge struct {
	running, most atomic.Int64
	release       chan struct{}
}

func newGauge() *gauge { return &gauge{release: make(chan struct{})} }

func (g *gauge) handle(ctx context.Context, _ *noteClaim) error {
	n := g.running.Add(1)
	defer g.running.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	select {
	case <-g.release:
	case <-ctx.Done():
	}
	return nil
}

// A worker that is given more handlers uses them at once. A worker that is given fewer lets running handlers finish,
// starts no more than it has left, and returns the other rows that it has claimed, for other processes.
func TestAWorkerIsRescaled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	g := newGauge()
	w := r.start(workqueue.WorkerOptions{Concurrency: 2}, g.handle)
	ids := r.insertMany("work", 40)
	r.eventually("two handlers", func() bool { return g.running.Load() == 2 })
	if err := w.SetConcurrency(10); err != nil {
		t.Fatal(err)
	}
	r.eventually("ten handlers", func() bool { return g.running.Load() == 10 })
	if n := w.Options().Concurrency; n != 10 {
		t.Errorf("the worker says that it has %d handlers, want 10", n)
	}
	if err := w.SetConcurrency(1); err != nil {
		t.Fatal(err)
	}
	r.eventually("the rows without a handler to be ready", func() bool {
		return r.count("status = 1") == 10 &&
			r.count("status = 0") == 30
	})
	if n := r.count("status = 0 AND attempts > 0"); n > 0 {
		t.Errorf("%d rows were returned without their attempt", n)
	}
	for range 10 {
		g.release <- struct{}{}
	}
	r.eventually("the first rows to be done", func() bool { return r.count("status = 2") == 10 })
	g.most.Store(0)
	for range 30 {
		g.release <- struct{}{}
	}
	r.awaitStatus(workqueue.Done, ids...)
	if most := g.most.Load(); most != 1 {
		t.Errorf("%d handlers ran at once, want 1", most)
	}
	if n := r.count("attempts > 1"); n > 0 {
		t.Errorf("%d rows were attempted twice", n)
	}
}

// A concurrency that is set before the start is the one that the worker starts with. An invalid one is refused.
func TestAWorkerIsRescaledBeforeItRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	g := newGauge()
	w, err := workqueue.NewWorker(r.Pool, r.Domain, g.handle, workqueue.WorkerOptions{Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 0, 100_001} {
		if err := w.SetConcurrency(n); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%d handlers: %v", n, err)
		}
	}
	if err := w.SetConcurrency(3); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	ids := r.insertMany("work", 3)
	r.eventually("three handlers", func() bool { return g.running.Load() == 3 })
	close(g.release)
	r.awaitStatus(workqueue.Done, ids...)
	cancel()
	if err := receive(t, ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if err := w.SetConcurrency(1); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// However the concurrency changes while rows are handled and while the worker stops, no row is lost or handled twice.
func TestRescalingLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	var done atomic.Int64
	handler := func(context.Context, *noteClaim) error { done.Add(1); return nil }
	const rows, rounds = 300, 6
	var want int64
	for range rounds {
		w := r.start(workqueue.WorkerOptions{Concurrency: 50}, handler)
		var changing sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			changing.Go(func() {
				for often := time.Tick(time.Millisecond); ; { // a loop without a pause would starve the worker
					if err := w.SetConcurrency(1 + rand.IntN(60)); err != nil {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					case <-often:
					}
				}
			})
		}
		ids := r.insertMany("work", rows)
		r.awaitStatus(workqueue.Done, ids[:rows/2]...)
		if err := w.stop(t); err != nil {
			t.Error(err)
		}
		close(stop)
		changing.Wait()
		if n := r.count("status = 1"); n > 0 {
			t.Errorf("%d rows are still claimed", n)
		}
		want += rows
	}
	r.start(workqueue.WorkerOptions{}, handler)
	r.eventually("all rows to be done", func() bool { return r.count("status = 2") == int(want) })
	if n := done.Load(); n != want {
		t.Errorf("%d rows were worked on, want %d", n, want)
	}
	if n := r.count("attempts > 1"); n > 0 {
		t.Errorf("%d rows were attempted twice", n)
	}
}
