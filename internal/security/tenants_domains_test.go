package security_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A drain by a tenant does the tenant's work, says once that it leaves folds to others, and spoils no transaction of
// the application.
func TestATenantsDrainLeavesFoldsToOthers(t *testing.T) {
	for _, policies := range []string{"of all tables", "of side tables only"} {
		t.Run(policies, func(t *testing.T) {
			f := newFixture(t)
			f.separate()
			f.follow()
			f.fill("globex")
			if policies == "of side tables only" {
				f.exec(f.db.Pool, "ALTER TABLE outbox DISABLE ROW LEVEL SECURITY")
			}
			acme := f.tenant("acme")
			send := func(topic, key string) {
				f.in(f.asTenant("producer", "acme"), func(ctx context.Context, tx workqueue.Tx) error {
					_, err := f.outbox.Enqueue(ctx, tx, outbox.Message{Topic: topic, Key: key})
					return err
				})
			}
			for _, drain := range []func(*outbox.Relay) (int, error){
				func(r *outbox.Relay) (int, error) {
					d, err := r.Drain()
					must(t, err)
					return d.Process(t.Context())
				},
				func(r *outbox.Relay) (n int, err error) {
					err = pgx.BeginFunc(t.Context(), acme, func(tx pgx.Tx) error {
						d, err := r.DrainIn(tx)
						must(t, err)
						if n, err = d.Process(t.Context()); err != nil {
							return err
						}
						_, err = tx.Exec(t.Context(), "SELECT 1")
						return err
					})
					return n, err
				},
			} {
				send("acme.t", "")
				send("acme.t", "acme.k")
				var said logText
				o, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Ordering: outbox.PerKey,
					Telemetry: workqueue.Telemetry{Logger: slog.New(slog.NewTextHandler(&said, nil))}})
				must(t, err)
				relay, err := outbox.NewRelay(acme, o, outbox.RelayOptions{})
				must(t, err)
				handled := 0
				relay.Handle("acme.t", func(context.Context, *outbox.Delivery) error { handled++; return nil })
				if _, err := drain(relay); err != nil || handled != 1 {
					t.Errorf("handled %d messages, %v; want the one without a key", handled, err)
				}
				if n := said.count("the role may not fold and sweep this table"); n != 1 {
					t.Errorf("it says %d times that it leaves folds:\n%s", n, said.String())
				}
			}
			if n := ask[int](f, "SELECT count(*)::int FROM {schema}.outbox_key_note"); n != 5 {
				t.Errorf("there are %d notes, want 3 of globex and 2 of acme", n)
			}
		})
	}
}

// A scheduler of a tenant starts nothing, since an occurrence may run that it does not see, and loses nothing.
func TestATenantsSchedulerStartsNothing(t *testing.T) {
	f := newFixture(t)
	f.separate()
	acme := f.tenant("acme")
	f.in(acme, func(ctx context.Context, tx workqueue.Tx) error {
		return f.jobs.Schedules().Put(ctx, tx, jobs.Schedule{Name: "acme.s", Expr: "@every 1h", Queue: "acme.q",
			Args: printArgs{1}, Rule: schedule.Rule{Overlap: schedule.OverlapSkip}})
	})
	owe := func() {
		f.exec(f.db.Pool, "UPDATE jobs_schedule SET next_at = now() - interval '1 second', due_at = now() - interval '1 second'")
	}
	jobsOf := func() int { return ask[int](f, "SELECT count(*)::int FROM {schema}.jobs") }
	for _, ways := range []string{"drain", "in"} {
		owe()
		s, err := f.jobs.Schedules().Scheduler(acme, periodic.SchedulerOptions{})
		must(t, err)
		if ways == "drain" {
			d, err := s.Drain()
			must(t, err)
			_, err = d.Process(t.Context())
			must(t, err)
		} else {
			must(t, pgx.BeginFunc(t.Context(), acme, func(tx pgx.Tx) error {
				d, err := s.DrainIn(tx)
				must(t, err)
				_, err = d.Process(t.Context())
				return err
			}))
		}
		if n := jobsOf(); n != 0 {
			t.Errorf("%s: %d occurrences were started", ways, n)
		}
	}
	if n := ask[int](f, "SELECT count(*)::int FROM {schema}.jobs_schedule WHERE status = 0 AND attempts = 0 AND "+
		"next_at < now()"); n != 1 {
		t.Error("the occurrence is no longer owed")
	}
	owe()
	s, err := f.jobs.Schedules().Scheduler(f.db.Pool, periodic.SchedulerOptions{})
	must(t, err)
	d, err := s.Drain()
	must(t, err)
	_, err = d.Process(t.Context())
	must(t, err)
	if n := jobsOf(); n != 1 {
		t.Errorf("the owner's scheduler started %d occurrences", n)
	}
}

// A dispatcher from which timers are hidden does not take their alarms for stranded, which would fire them again.
func TestATenantsDispatcherRepairsNothing(t *testing.T) {
	f := newFixture(t)
	f.in(f.db.Pool, func(ctx context.Context, tx workqueue.Tx) error {
		_, _, err := f.alarms.In(tx).CreateAlarm(ctx, alarms.New{OwnerDID: "acme.did", UserID: "u",
			Kind: alarms.KindOnce, Delay: 1, WakeMessage: "wake"})
		return err
	})
	f.exec(f.db.Pool, "UPDATE alarms SET next_fire_at = now() - interval '1 hour'")
	f.separate() // timers by their keys, which begin with "alarm/"
	dispatcher := func(role string) *alarms.Dispatcher {
		pool := f.db.Pool
		if role != "owner" {
			pool = f.tenant(role)
		}
		d, err := alarms.NewDispatcher(pool, f.alarms, nobody{}, alarms.DispatcherOptions{})
		must(t, err)
		return d
	}
	before := ask[string](f, "SELECT row(t, a)::text FROM {schema}.timers AS t, {schema}.alarms AS a")
	if n, err := dispatcher("acme").Repair(t.Context()); err == nil || n != 0 {
		t.Errorf("a tenant's dispatcher repairs %d alarms, %v", n, err)
	}
	n, err := dispatcher("owner").Repair(t.Context())
	must(t, err)
	if after := ask[string](f, "SELECT row(t, a)::text FROM {schema}.timers AS t, {schema}.alarms AS a"); after != before ||
		n != 0 {
		t.Errorf("the alarm has changed, %d repairs: %s\n%s", n, before, after)
	}
}

// nobody is a waker that is never called.
type nobody struct{}

func (nobody) Wake(context.Context, alarms.Wake) error { return nil }
