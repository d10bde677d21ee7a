package outbox_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A probe that hangs, and whose page was lost meanwhile, is not waited for: others find out whether the destination is
// available.
func TestAProbeOfALogHangsInALostPage(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 3)...)
	var calls atomic.Int32
	hangs, release := make(chan bool), make(chan bool)
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{Lease: time.Second, PollInterval: 50 * time.Millisecond,
		Concurrency: 4, ShutdownTimeout: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			switch n := calls.Add(1); {
			case n <= 3:
				return workqueue.Unavailable(errors.New("connection refused"))
			case n == 4:
				close(hangs)
				<-release
				return nil
			}
			got.note(m)
			return nil
		})
	})
	defer func() { close(release); rest(200 * time.Millisecond) }()
	receive(t, hangs)
	f.exec("UPDATE " + f.table + "_position SET owner_token = gen_random_uuid(), locked_until = now()")
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 3 && f.drained("billing") })
}

// A timeout that is as long as can be is none: nothing hangs.
func TestAHandlerOfALogHasAllTheTime(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 3)...)
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: math.MaxInt64}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			rest(100 * time.Millisecond)
			got.note(m)
			return nil
		})
	})
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 3 && f.drained("billing") })
	if n := f.parked("billing", "true"); n > 0 {
		t.Errorf("%d messages were parked", n)
	}
}

// A batch whose handler hung is parked: if the call fails at last, its halves are not called, although the page goes
// on.
func TestABatchOfALogHangs(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(append(messages("bulk", 2), messages("single", 200)...)...)
	var calls, quick atomic.Int32
	hangs, release, returned := make(chan bool), make(chan bool), make(chan bool)
	f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond, Concurrency: 2,
		PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleBatch("bulk", workqueue.BatchOptions{Limit: 10}, func(_ context.Context, b []*outbox.Delivery) ([]error,
			error) {
			if calls.Add(1) == 1 {
				close(hangs)
				<-release
				defer close(returned)
				return nil, errors.New("failed at last")
			}
			return make([]error, len(b)), nil
		})
		r.HandleAll(func(context.Context, *outbox.Delivery) error {
			if quick.Load() == 0 {
				rest(50 * time.Millisecond)
			}
			return nil
		})
	})
	receive(t, hangs)
	f.until("the batch is delivered as rows", func() bool { return f.parked("billing", "status = 2") == 2 })
	before := calls.Load()
	close(release)
	receive(t, returned)
	rest(200 * time.Millisecond)
	quick.Store(1)
	f.until("all are delivered", func() bool { return f.drained("billing") })
	if n := calls.Load(); n != before {
		t.Errorf("the handler was called %d times more", n-before)
	}
}

// What a call of a batch has put back is not parked with what another call of the batch hung on.
func TestABatchOfALogHangsInItsSecondHalf(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 3)...)
	var away atomic.Bool
	away.Store(true)
	hangs, release := make(chan bool), make(chan bool)
	hung := sync.OnceFunc(func() { close(hangs); <-release })
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond, Concurrency: 2,
		PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleBatch("t", workqueue.BatchOptions{Limit: 2}, func(_ context.Context, b []*outbox.Delivery) ([]error,
			error) {
			switch {
			case len(b) == 2:
				return nil, errors.New("the call fails")
			case away.Load() && string(b[0].Payload) == "t1":
				hung()
			case away.Load():
				return []error{workqueue.Unavailable(errors.New("connection refused"))}, nil
			}
			got.note(b[0])
			return nil, nil
		})
	})
	defer func() { close(release); rest(200 * time.Millisecond) }()
	receive(t, hangs)
	rest(1500 * time.Millisecond) // it counts as hung after 1.1 s
	away.Store(false)
	f.until("all are delivered", func() bool { n, _ := got.count(); return n == 3 && f.drained("billing") })
	if n, calls := got.count(); n != calls || f.parked("billing", "true") != 1 {
		t.Errorf("%d messages in %d calls, %d were parked", n, calls, f.parked("billing", "true"))
	}
}

// A relay has as many lanes in hand as handlers, also after SetConcurrency.
func TestConcurrencyOfLanesIsChanged(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 2)
	f.enqueue(messages("t", 20)...)
	started, release := make(chan bool, 20), make(chan bool)
	r := f.subscriber("billing", workqueue.WorkerOptions{Concurrency: 1, PollInterval: 50 * time.Millisecond},
		func(r *outbox.Relay) {
			r.HandleAll(func(context.Context, *outbox.Delivery) error { started <- true; <-release; return nil })
		})
	receive(t, started)
	if err := r.SetConcurrency(2); err != nil {
		t.Fatal(err)
	}
	defer func() { close(release); rest(200 * time.Millisecond) }()
	f.until("both lanes are in hand", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+"_position WHERE locked_until IS NOT NULL") == 2
	})
}

// Attempts count claims whose consumer may have died: neither a pause nor a change is one.
func TestNobodyDiesOfAPause(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 20)...)
	var handled atomic.Int32
	f.subscriber("billing", workqueue.WorkerOptions{ClaimLimit: 1,
		PollInterval: 20 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error {
			n := handled.Add(1)
			if n == 5 {
				f.exec("SELECT " + f.table + "_pause('billing')")
			}
			return nil
		})
	})
	f.until("it is paused in the middle of a batch", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+"_position WHERE owner_token IS NULL AND done > 0") == 1
	})
	f.exec("SELECT " + f.table + "_resume('billing')")
	f.until("all are delivered", func() bool { return f.drained("billing") })
	if n := f.parked("billing", "true"); n > 0 {
		t.Errorf("%d messages were parked", n)
	}
}
