package outbox_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// startRelay runs a relay of a subscription until the test ends, and returns what Run returns.
func (f *fixture) startRelay(name string, o workqueue.WorkerOptions, handle outbox.Handler) (ended <-chan error) {
	f.Helper()
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{WorkerOptions: o, Subscription: name})
	if err != nil {
		f.Fatal(err)
	}
	r.HandleAll(handle)
	ctx, stop := context.WithCancel(f.Context())
	done, result := make(chan struct{}), make(chan error, 1)
	go func() { defer close(done); result <- r.Run(ctx) }()
	f.Cleanup(func() { stop(); <-done })
	return result
}

// A handler that hangs and whose message is parked is waited for when the relay stops, as others are.
func TestRunWaitsForAHungHandlerOfALog(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 1)...)
	release := make(chan bool)
	var returned atomic.Bool
	r := f.subscriber("billing", workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond,
		ShutdownTimeout: time.Minute, PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			if m.Attempt == 1 {
				<-release
				rest(500 * time.Millisecond)
				returned.Store(true)
			}
			return nil
		})
	})
	f.until("it is parked and delivered as a row", func() bool { return f.parked("billing", "status = 2") == 1 })
	close(release)
	if err := r.end(); err != nil || !returned.Load() {
		t.Errorf("Run returned %v before the handler did", err)
	}
}

// A subscription that is removed between the settle of a page and the fetch of the next one is missed at once, although
// the lease goes on.
func TestASubscriptionIsRemovedBetweenPages(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.execLog(`CREATE FUNCTION LOG_remove() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN DELETE FROM LOG_subscription; RETURN NULL; END $$`)
	f.execLog("CREATE TRIGGER remove AFTER UPDATE ON LOG_position FOR EACH ROW WHEN (NEW.done > 0) " +
		"EXECUTE FUNCTION LOG_remove()")
	f.enqueue(messages("t", 5)...)
	r := f.subscriber("billing", workqueue.WorkerOptions{ClaimLimit: 1, Lease: 10 * time.Minute,
		ShutdownTimeout: 10 * time.Minute, PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	f.until("the relay says that its subscription was removed", func() bool {
		err := r.Workers()[0].Ready()
		return err != nil && strings.Contains(err.Error(), "no subscription")
	})
}

// The first tick waits for that of another session for longer than it may, and the next one has its turn.
func TestTheFirstTickOfARelayWaits(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.execLog("ALTER FUNCTION LOG_tick_step(interval) SET lock_timeout = '50ms'")
	other, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.Background())
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
		f.table+" tick"); err != nil {
		t.Fatal(err)
	}
	delivered := make(chan bool, 1)
	ended := f.startRelay("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond},
		func(context.Context, *outbox.Delivery) error { delivered <- true; return nil })
	f.enqueue(messages("t", 1)...)
	select {
	case err := <-ended:
		t.Fatalf("Run ended: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, delivered)
}

// A page whose settle is refused for ever is repeated less and less: the claims that it costs are seen as attempts, and
// each repeats half as much as the one before.
func TestAPageOfALogThatCannotBeSettled(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.execLog(`CREATE FUNCTION LOG_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE 'nothing can be settled'; END $$`)
	f.execLog("CREATE TRIGGER refuse BEFORE UPDATE ON LOG_position FOR EACH ROW " +
		"WHEN (NEW.done > 0 OR NEW.upto IS NULL) EXECUTE FUNCTION LOG_refuse()")
	const page = 8
	f.enqueue(messages("t", page)...)
	var calls atomic.Int32
	f.startRelay("billing", workqueue.WorkerOptions{ClaimLimit: page, Lease: time.Second,
		PollInterval: 50 * time.Millisecond}, func(context.Context, *outbox.Delivery) error {
		calls.Add(1)
		return nil
	})
	f.until("it is claimed six times", func() bool {
		return f.count("SELECT attempts FROM "+f.table+"_position") >= 6
	})
	if n := calls.Load(); n > 2*page {
		t.Errorf("a page of %d messages was handled in %d calls", page, n)
	}
	f.execLog("DROP TRIGGER refuse ON LOG_position")
	f.until("all are delivered", func() bool { return f.drained("billing") })
}
