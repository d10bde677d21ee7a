package alarms_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// The deliveries of a batch run concurrently, so slow ones do not outlive the lease. If they ran one after the other,
// the last would begin long after all leases had expired.
func TestABatchDoesNotOutliveItsLease(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	const n = 20
	var running, most atomic.Int32
	all := make(chan struct{})
	r := newRecorder(func(alarms.Wake) error {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if now == n {
			close(all)
		}
		select {
		case <-all: // all deliveries are running
		case <-time.After(patience):
		}
		return nil
	})
	ids := make([]string, n)
	for i := range ids {
		ids[i] = f.create(once()).ID
	}
	for _, id := range ids {
		f.due(id)
	}
	o := quick()
	o.Lease = time.Hour // a machine that stands still must not repeat a delivery
	f.dispatch(r, o)
	f.until("all have fired", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 'fired'") == n
	})
	if most.Load() != n || len(r.wakes) != n {
		t.Errorf("%d at once, %d deliveries, want %d of both", most.Load(), len(r.wakes), n)
	}
}

// A delivery may take longer than its lease, which is renewed meanwhile.
func TestADeliveryMayOutlastItsLease(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	h := newHanging()
	o := quick()
	o.Lease = pgtest.Lease
	f.dispatch(h, o)
	f.dispatch(h, o)
	a := f.create(once())
	f.due(a.ID)
	receive(t, h.begun)
	first := ask[time.Time](f, "SELECT locked_until FROM "+f.timers)
	f.until("the lease has been renewed past its first end", func() bool {
		return f.clock().After(first) && ask[time.Time](f, "SELECT locked_until FROM "+f.timers).After(first)
	})
	if _, err := f.alarms.Timers().Table().On(f.Pool).ReapExpired(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	h.answer <- nil
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
	if len(h.begun) != 0 {
		t.Error("it was delivered twice")
	}
}

func TestDispatchersShareTheWork(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	const n = 60
	var mu sync.Mutex
	seen := map[string]int{}
	w := alarms.WakerFunc(func(_ context.Context, w alarms.Wake) error {
		mu.Lock()
		defer mu.Unlock()
		seen[w.AlarmID]++
		return nil
	})
	for range 3 {
		f.dispatch(w)
	}
	for range n {
		f.due(f.create(once()).ID)
	}
	f.until("all have fired", func() bool {
		return ask[int](f, "SELECT count(*) FROM "+f.table+" WHERE status = 'fired'") == n
	})
	mu.Lock()
	defer mu.Unlock()
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was delivered %d times", id, times)
		}
	}
}

func TestAShutdownWaitsForDeliveries(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	h := newHanging()
	stop := f.dispatch(h)
	a := f.create(once())
	f.due(a.ID)
	receive(t, h.begun)
	go func() { h.answer <- nil }()
	stop()
	if got := f.get(a.ID); got.Status != alarms.StatusFired {
		t.Errorf("got %+v", got)
	}
}

// A delivery that a shutdown interrupts counts neither as an attempt nor as a failure.
func TestAShutdownGivesBackWhatItBreaksOff(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	begun := make(chan bool, 1)
	o := quick()
	o.ShutdownTimeout = time.Millisecond
	stop := f.dispatch(alarms.WakerFunc(func(ctx context.Context, _ alarms.Wake) error {
		begun <- true
		<-ctx.Done()
		return ctx.Err()
	}), o)
	a := f.create(once())
	f.due(a.ID)
	receive(t, begun)
	stop()
	if got, timer := f.get(a.ID), f.timer(a.ID); got.FailureCount != 0 || got.LastError != "" || timer.Attempts != 0 ||
		timer.Status != workqueue.Ready {
		t.Errorf("got %+v, timer %+v", got, timer)
	}
}

// An alarm that could not be read was not delivered, so it has not failed.
func TestTroubleWithTheDatabaseIsNoFailedDelivery(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(nil)
	f.dispatch(r)
	n := once()
	n.MaxFailures = 1
	a := f.create(n)
	f.exec("ALTER TABLE " + f.table + " RENAME TO elsewhere")
	f.exec("UPDATE " + f.timers + " SET due_at = clock_timestamp()")
	f.until("it was put back", func() bool {
		return ask[bool](f, "SELECT status = 0 AND attempts = 0 AND due_at > created_at + interval '1 second' FROM "+
			f.timers)
	})
	f.exec("ALTER TABLE " + f.Schema + ".elsewhere RENAME TO alarms")
	receive(t, r.wakes)
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
}
