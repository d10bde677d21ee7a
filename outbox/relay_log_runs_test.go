package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// A batch of a log has runs of its keys. What is behind a message that was not delivered is handled again after it,
// whatever its own result says, and nothing but that message is charged.
func TestABatchOfALogHasRunsOfItsKeys(t *testing.T) {
	t.Parallel()
	const keys, n, bad = 4, 400, "17"
	failed := errors.New("this one fails")
	for name, c := range map[string]struct {
		result  error // of one message, the first time
		call    error // in its place, of all calls that have it beside others
		parks   bool
		charged int
		ends    int // it is not handled again
	}{
		"is retried":        {result: workqueue.RetryNow(failed), parks: true, charged: 1},
		"is snoozed":        {result: workqueue.SnoozeFor(0, failed), parks: true, charged: 1},
		"is cancelled":      {result: workqueue.Cancelled("no need"), ends: 1},
		"is unavailable":    {result: workqueue.Unavailable(failed)},
		"fails its calls":   {result: workqueue.RetryNow(failed), call: failed, parks: true, charged: 1},
		"is in a lost call": {result: workqueue.Unavailable(failed), call: workqueue.Unavailable(failed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
			f.subscribe("billing", 1)
			f.enqueue(numberedByKey(keys, n)...)
			got := newLedger()
			var longest atomic.Int64
			var over atomic.Bool
			handle := func(_ context.Context, b []*outbox.Delivery) ([]error, error) {
				each, stopped, run := make([]error, len(b)), "", int64(0)
				for i, m := range b {
					switch isBad := m.Key == "k1" && string(m.Payload) == bad && !over.Load(); {
					case isBad && c.call != nil && len(b) > 1:
						return nil, c.call
					case isBad:
						over.Store(true)
						each[i], stopped = c.result, m.Key
					}
					if m.Key == "k1" {
						run++
					}
				}
				longest.Store(max(longest.Load(), run))
				behind := false
				for i, m := range b {
					behind = behind || each[i] != nil
					if !behind || m.Key != stopped {
						got.note(m)
					}
				}
				return each, nil
			}
			o := workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}
			f.subscriber("billing", o, func(r *outbox.Relay) {
				r.HandleAllBatch(workqueue.BatchOptions{}, handle)
			})
			f.until("all are delivered", func() bool {
				d, _ := got.count()
				return d == n-c.ends && f.drained("billing")
			})
			if d, calls := got.count(); d != calls || got.out > 0 || longest.Load() < 2 {
				t.Errorf("%d messages in %d calls, %d out of order, at most %d of a key in a batch", d, calls, got.out,
					longest.Load())
			}
			all, charged := f.parked("billing", "true"), f.parked("billing", "last_error LIKE '%this one fails%'")
			if others := f.parked("billing", "concurrency_key NOT LIKE '%k1'"); all > 0 != c.parks || others > 0 ||
				charged != c.charged {
				t.Errorf("%d messages were parked, %d of other keys, %d charged", all, others, charged)
			}
		})
	}
}

// If a batch with runs hangs, the first message of each run has failed, and those behind it have not.
func TestABatchOfRunsHangs(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 1)
	const keys, n = 4, 40
	f.enqueue(numberedByKey(keys, n)...)
	got := newLedger()
	var calls atomic.Int32
	release := make(chan bool)
	f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond, Concurrency: 2,
		PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		o := workqueue.BatchOptions{Limit: 20}
		r.HandleAllBatch(o, func(_ context.Context, b []*outbox.Delivery) ([]error, error) {
			if calls.Add(1) == 1 {
				<-release
				return nil, nil
			}
			for _, m := range b {
				got.note(m)
			}
			return nil, nil
		})
	})
	defer func() { close(release); rest(200 * time.Millisecond) }()
	f.until("all are delivered", func() bool { d, _ := got.count(); return d == n && f.drained("billing") })
	if d, calls := got.count(); d != calls || got.out > 0 {
		t.Errorf("%d messages in %d calls, %d out of order", d, calls, got.out)
	}
	if charged := f.parked("billing", "last_error LIKE 'handler did not return%'"); charged != keys {
		t.Errorf("%d messages have failed, want the first of each of %d keys", charged, keys)
	}
}
