package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

const subscriptionRests = "destination is unavailable, its subscription rests"

// countUpdates counts updates of positions from now on.
func (f *fixture) countUpdates() (count func() int) {
	f.Helper()
	f.execLog("CREATE TABLE LOG_updates (n int)")
	f.execLog(`CREATE FUNCTION LOG_updated() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO LOG_updates VALUES (1); RETURN NULL; END $$`)
	f.execLog("CREATE TRIGGER updated AFTER UPDATE ON LOG_position FOR EACH ROW EXECUTE FUNCTION LOG_updated()")
	return func() int { return f.count("SELECT count(*) FROM " + f.table + "_updates") }
}

// since is since when the destination of a subscription has been unavailable; zero: it is not known to be.
func (f *fixture) since(name string) (at time.Time) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) error {
		all, err := f.box.Subscriptions(f.Context(), workqueue.Pgx(tx))
		for _, s := range all {
			if s.Name == name {
				at = s.UnavailableSince
			}
		}
		return err
	})
	return at
}

// numberedByKey are messages of some keys, numbered as a ledger wants it.
func numberedByKey(keys, n int) (all []outbox.Message) {
	for i := range n {
		all = append(all, outbox.Message{Topic: "t", Key: "k" + strconv.Itoa(i%keys),
			Payload: []byte(strconv.Itoa(i / keys))})
	}
	return all
}

// While the destination of a subscription is away, all its relays together try it with one message after each rest. No
// attempt is used up, nothing is parked, a probe costs two updates, and an outage two log lines. From the next probe
// on, each message is delivered once, in order, by all relays.
func TestRelaysOfALogBesideADestinationThatIsAway(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]workqueue.WorkerOptions{"refuses": {},
		"half open": {HandlerTimeout: 200 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lines
			f := newLog(t, func(o *outbox.Options) {
				o.Telemetry.Logger, o.Ordering = slog.New(&log), outbox.PerKey
			})
			f.subscribe("billing", 2)
			updates := f.countUpdates()
			const n = 600
			f.enqueue(numberedByKey(20, n)...)
			var away atomic.Bool
			var calls, atOnce, most atomic.Int64
			away.Store(true)
			got := newLedger()
			o.Concurrency, o.ClaimLimit, o.PollInterval = 4, 50, 200*time.Millisecond
			for range 2 {
				f.subscriber("billing", o, func(r *outbox.Relay) {
					r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
						if m.Attempt != 1 {
							t.Errorf("attempt %d", m.Attempt)
						}
						if !away.Load() {
							got.note(m)
							return nil
						}
						calls.Add(1)
						if at := atOnce.Add(1); calls.Load() > 8 && at > most.Load() {
							most.Store(at)
						}
						defer atOnce.Add(-1)
						if o.HandlerTimeout > 0 {
							<-ctx.Done()
						}
						return workqueue.Unavailable(errors.New("connection refused"))
					})
				})
			}
			f.until("the subscription rests", func() bool { return !f.since("billing").IsZero() })
			f.awaitWriters(f.table + "_position") // a claim that began before does not know it
			f.until("nothing is in hand", func() bool {
				return f.count("SELECT count(*) FROM "+f.table+"_position WHERE page IS NOT NULL") == 0
			})
			since, tried, updated := f.since("billing"), calls.Load(), updates()
			rest(4 * time.Second)
			if !f.since("billing").Equal(since) {
				t.Error("it is another outage, or none")
			}
			if n := calls.Load() - tried; n < 1 || n > 4 { // after 0.4 to 0.5 s, and then 0.8, 1.6 and 3.2 at least
				t.Errorf("%d probes in 4 s", n)
			}
			if n, probes := updates()-updated, calls.Load()-tried; int64(n) > 2*(probes+1) {
				t.Errorf("%d updates for %d probes", n, probes)
			}
			if n := most.Load(); n > 1 {
				t.Errorf("%d probes at once", n)
			}
			away.Store(false)
			f.until("all are delivered", func() bool { d, _ := got.count(); return d == n && f.drained("billing") })
			if d, calls := got.count(); d != calls || got.out > 0 {
				t.Errorf("%d messages in %d calls, %d out of order", d, calls, got.out)
			}
			if n := f.parked("billing", "true"); n > 0 {
				t.Errorf("%d messages were parked", n)
			}
			if a, b := log.count(subscriptionRests), log.count(backLine); a != 1 || b != 1 {
				t.Errorf("%d lines at the beginning, %d at the end", a, b)
			}
		})
	}
}

// Messages that were parked before the destination went away do not try it while the subscription rests, and are
// delivered when it is back.
func TestParkedMessagesRestWithTheirSubscription(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	var away atomic.Bool
	var parkedCalls, delivered atomic.Int64
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			switch {
			case m.Topic == "fails" && parkedCalls.Add(1) == 1:
				return errors.New("refused")
			case away.Load():
				return workqueue.Unavailable(errors.New("connection refused"))
			}
			delivered.Add(1)
			return nil
		})
	})
	f.enqueue(messages("fails", 1)...)
	f.until("it is parked", func() bool { return f.parked("billing", "true") == 1 })
	away.Store(true)
	f.enqueue(messages("t", 1)...)
	f.until("the subscription rests", func() bool { return !f.since("billing").IsZero() })
	for range 3 {
		f.exec("UPDATE " + f.table + "_parked SET due_at = now()")
		f.until("it is put back", func() bool { return f.parked("billing", "status = 0 AND due_at > now()") == 1 })
	}
	if n, used := parkedCalls.Load(), f.parked("billing", "attempts > 1"); n > 1 || used > 0 {
		t.Errorf("the parked message was tried %d times while its subscription rested, %d attempts used", n-1, used)
	}
	away.Store(false)
	f.until("the subscription goes on", func() bool { return f.since("billing").IsZero() })
	f.exec("UPDATE " + f.table + "_parked SET due_at = now() WHERE status = 0")
	f.until("both are delivered", func() bool { return delivered.Load() == 2 })
}

// A destination that comes and goes costs no attempt, and repeats nothing: what a relay has delivered of a page that it
// gives back is not delivered again.
func TestADestinationOfALogThatComesAndGoes(t *testing.T) {
	t.Parallel()
	f := newLog(t, func(o *outbox.Options) { o.Ordering = outbox.PerKey })
	f.subscribe("billing", 2)
	const n = 2000
	f.enqueue(append(numberedByKey(10, n), messages("free", n)...)...)
	start := time.Now()
	got := newLedger()
	for range 2 {
		f.subscriber("billing", workqueue.WorkerOptions{Concurrency: 8, PollInterval: 100 * time.Millisecond},
			func(r *outbox.Relay) {
				r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
					rest(time.Millisecond)
					if up := time.Since(start); up < 5*time.Second && up.Milliseconds()/100%3 == 2 {
						return workqueue.Unavailable(errors.New("connection refused"))
					}
					got.note(m)
					return nil
				})
			})
	}
	f.until("all are delivered", func() bool { d, _ := got.count(); return d == 2*n && f.drained("billing") })
	if d, calls := got.count(); d != calls || got.out > 0 || f.parked("billing", "true") > 0 {
		t.Errorf("%d messages in %d calls, %d out of order, %d parked", d, calls, got.out, f.parked("billing", "true"))
	}
}

// Who probes and dies, or hangs without an end, is followed by another relay when the lease has ended.
func TestAProberOfALogDies(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 10)...)
	f.exec("CALL " + f.table + "_tick()")
	const fetch = "_fetch('billing', 'ca27e3a1-1b2c-4d3e-8f4a-5b6c7d8e9f00', '2 seconds', 10)"
	f.exec("SELECT " + f.table + fetch)
	f.exec("SELECT " + f.table + "_unavailable('billing', 'ca27e3a1-1b2c-4d3e-8f4a-5b6c7d8e9f00', 'away')")
	f.until("it probes", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+fetch+" WHERE entry = 'row'") == 1
	})
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got.note(m); return nil })
	})
	f.until("all are delivered", func() bool { d, _ := got.count(); return d == 10 && f.drained("billing") })
}

// An operator who resumes a subscription ends its rest.
func TestAnOperatorEndsARest(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("billing", 1)
	f.enqueue(messages("t", 10)...)
	var away atomic.Bool
	away.Store(true)
	got := newLedger()
	f.subscriber("billing", workqueue.WorkerOptions{PollInterval: 50 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			if away.Load() {
				return workqueue.Unavailable(errors.New("connection refused"))
			}
			got.note(m)
			return nil
		})
	})
	f.until("it rests", func() bool { return !f.since("billing").IsZero() })
	f.exec("UPDATE " + f.table + "_position SET rest.until = now() + interval '9 s' WHERE (rest).since IS NOT NULL")
	away.Store(false)
	f.inTx(func(tx pgx.Tx) error {
		changed, err := f.box.ResumeSubscription(f.Context(), workqueue.Pgx(tx), "billing")
		if !changed {
			t.Error("it was not resting")
		}
		return err
	})
	f.until("all are delivered", func() bool { d, _ := got.count(); return d == 10 && f.drained("billing") })
	if !f.since("billing").IsZero() {
		t.Error("it still rests")
	}
}
