package timers_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// Timers of a topic with a batch handler are handled together. One that cannot be is found, and one that is set again
// while its batch runs fires again.
func TestTimersAreHandledTogether(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	past := f.clock().Add(-time.Minute)
	var all []timers.Timer
	for _, key := range []string{"a", "b", "poison", "d"} {
		all = append(all, timers.Timer{Key: key, Topic: "bulk", ScheduledAt: past, Payload: []byte(key)})
	}
	f.set(append(all, timers.Timer{Key: "alone", Topic: "single", ScheduledAt: past})...)
	var mu sync.Mutex
	var calls [][]string
	alone, again := make(chan string, 1), make(chan int, 1)
	f.worker(timers.WorkerOptions{}, func(w *timers.Worker) {
		w.HandleBatch("bulk", workqueue.BatchOptions{Limit: 4, Linger: time.Hour}, func(_ context.Context,
			b []*timers.Delivery) ([]error, error) {
			var keys []string
			for _, d := range b {
				if keys = append(keys, d.Key); d.Late < time.Minute || string(d.Payload) != d.Key {
					t.Errorf("got %+v", d)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if calls = append(calls, keys); len(calls) == 1 {
				f.set(timers.Timer{Key: "a", Topic: "again", ScheduledAt: past})
			}
			if slices.Contains(keys, "poison") {
				return nil, errors.New("poison")
			}
			return nil, nil
		})
		w.HandleBatch("again", workqueue.BatchOptions{}, func(_ context.Context,
			b []*timers.Delivery) ([]error, error) {
			again <- b[0].Generation
			return nil, nil
		})
		w.HandleAll(func(_ context.Context, d *timers.Delivery) error { alone <- d.Key; return nil })
	})
	if key := receive(t, alone); key != "alone" {
		t.Errorf("%q is handled alone", key)
	}
	if n := receive(t, again); n != 2 {
		t.Errorf("generation %d fires again", n)
	}
	f.until("the poison to be alone", func() bool { i := f.get("poison"); return i.Attempts == 1 && i.LastError != "" })
	for _, key := range []string{"b", "d"} {
		f.until(key+" to fire", func() bool { return f.get(key).Status == workqueue.Done })
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) != 5 || len(calls[0]) != 4 {
		t.Errorf("called with %q", calls)
	}
}

// Timers of all topics without a handler of their own share batches.
func TestTimersOfAllTopicsAreHandledTogether(t *testing.T) {
	t.Parallel()
	f := newTimers(t)
	past := f.clock().Add(-time.Minute)
	f.set(timers.Timer{Key: "a", Topic: "a", ScheduledAt: past}, timers.Timer{Key: "b", Topic: "b", ScheduledAt: past})
	w, err := timers.NewWorker(f.Pool, f.timers, timers.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	w.HandleAllBatch(workqueue.BatchOptions{}, func(_ context.Context, b []*timers.Delivery) ([]error, error) {
		sizes = append(sizes, len(b))
		return nil, nil
	})
	d, err := w.Drain()
	if err == nil {
		_, err = d.Process(t.Context())
	}
	if err != nil || !slices.Equal(sizes, []int{2}) {
		t.Errorf("calls of %d, %v", sizes, err)
	}
}
