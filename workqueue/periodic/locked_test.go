package periodic_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// A process freezes in the middle of a decision. Its session holds the row until the server ends the session, after at
// most the lease. Then others change the schedule, reap it and decide.
func TestASchedulerThatIsFrozenInTheDecision(t *testing.T) {
	t.Parallel()
	inside, thaw := make(chan struct{}), make(chan struct{})
	process := &stopped{thaw: thaw}
	freeze := func(o *periodic.Options) {
		o.Insert = func(ctx context.Context, tx workqueue.Tx, occurrences []periodic.Occurrence) (int, error) {
			if !process.frozen.Swap(true) {
				close(inside)
				<-thaw
			}
			return insertRuns(ctx, tx, occurrences)
		}
	}
	f := newPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)
	pool := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) { c.ConnConfig.DialFunc = process.dial }))
	stop := f.schedulerOn(pool, openPlan(t, f.Schema, freeze),
		periodic.SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{Lease: pgtest.Lease}})
	<-inside
	start := time.Now()
	f.put(hourly(schedule.Rule{}))
	if took := time.Since(start); took > patience/2 {
		t.Errorf("put waited %v", took)
	}
	f.reaped()
	f.scheduler()
	f.until("the occurrence is written", func() bool { return f.get("s").Fired == 1 })
	close(thaw)
	stop()
	if got := f.get("s"); got.Fired != 1 || len(f.runs("s")) != 1 {
		t.Errorf("got %+v and %d runs", got, len(f.runs("s")))
	}
}

// stopped is a process that sends nothing while it is frozen, not even renewals.
type stopped struct {
	frozen atomic.Bool
	thaw   chan struct{}
}

func (s *stopped) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return stoppedConn{conn, s}, err
}

type stoppedConn struct {
	net.Conn
	process *stopped
}

func (c stoppedConn) Write(b []byte) (int, error) {
	if c.process.frozen.Load() {
		<-c.process.thaw
	}
	return c.Conn.Write(b)
}

// An open transaction holds the schedule. A change waits for a while, and its error then names the session.
func TestAChangeOfAScheduleThatIsHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold   func(f *fixture, tx workqueue.Tx) error
		change func(f *fixture, tx workqueue.Tx) error
		unseen bool // whether the holder cannot be found
	}{
		"put": {holdPut, holdPut, false},
		"pause": {holdPut, func(f *fixture, tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") },
			false},
		"resume": {holdPut, func(f *fixture, tx workqueue.Tx) error { return f.plan.Resume(f.Context(), tx, "s") },
			false},
		"delete": {holdPut, func(f *fixture, tx workqueue.Tx) error { return f.plan.Delete(f.Context(), tx, "s") },
			false},
		"trigger":  {holdPut, trigger, false},
		"backfill": {holdPut, backfill, false},
		"create": {func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "new", Expr: "@every 1h"})
		}, func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "new", Expr: "@every 1h"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{}))
			holder, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Rollback(context.WithoutCancel(t.Context()))
			if err := c.hold(f, workqueue.Pgx(holder)); err != nil {
				t.Fatal(err)
			}
			err = f.inTx(func(tx workqueue.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '300ms'"); err != nil { // shorter than ours
					return err
				}
				return c.change(f, tx)
			})
			var held *periodic.LockedError
			if !errors.As(err, &held) || !strings.Contains(err.Error(), "schedule") || (held.PID == 0) != c.unseen {
				t.Fatalf("got %v", err)
			}
			if pid := ask[int](f, "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND pid = $1 "+
				"UNION ALL SELECT 0", held.PID); pid != held.PID {
				t.Errorf("%d does not hold it: %v", held.PID, err)
			}
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.do(func(tx workqueue.Tx) error { return c.change(f, tx) })
		})
	}
}

func holdPut(f *fixture, tx workqueue.Tx) error {
	return f.plan.Put(f.Context(), tx, hourly(schedule.Rule{}))
}

func trigger(f *fixture, tx workqueue.Tx) error {
	_, err := f.plan.Trigger(f.Context(), tx, "s")
	return err
}

func backfill(f *fixture, tx workqueue.Tx) error {
	now := f.clock()
	_, err := f.plan.Backfill(f.Context(), tx, "s", now.Add(-2*time.Hour), now)
	return err
}

// The bound applies if the application has no lock_timeout. It is long, so the wait is only seen at full size.
func TestAChangeWaitsNoLongerThanItSays(t *testing.T) {
	t.Parallel()
	if !pgtest.Full() {
		t.Skipf("it takes %v", periodic.MaxWait)
	}
	f := newPlan(t)
	holdSchedule(f)
	err := f.inTx(func(tx workqueue.Tx) error { return holdPut(f, tx) })
	if held, ok := errors.AsType[*periodic.LockedError](err); !ok {
		t.Errorf("got %v, not a %T", err, held)
	}
}

// A transaction that has waited keeps the lock_timeout that the application gave it.
func TestAChangeThatHasWaitedRestoresTheLockTimeout(t *testing.T) {
	t.Parallel()
	bothWays(t, func(f *fixture, do func(func(workqueue.Tx) error)) {
		ctx := f.Context()
		holder := holdSchedule(f)
		released := make(chan error, 1)
		do(func(tx workqueue.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '25s'"); err != nil {
				return err
			}
			go func() {
				pgtest.Await(patience, func() bool { return f.somebodyWaits() || ctx.Err() != nil })
				released <- holder.Rollback(ctx)
			}()
			if err := holdPut(f, tx); err != nil {
				return err
			}
			return tx.Query(ctx, func(scan func(...any) error) error {
				var own string
				if err := scan(&own); err != nil || own != "25s" {
					f.Errorf("lock_timeout is %q afterwards, %v", own, err)
				}
				return nil
			}, "SHOW lock_timeout")
		})
		if err := <-released; err != nil {
			f.Error(err)
		}
	})
}

// holdSchedule returns a transaction that holds a schedule until it, or the test, ends.
func holdSchedule(f *fixture) pgx.Tx {
	f.Helper()
	f.put(hourly(schedule.Rule{}))
	holder, err := f.Pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = holder.Rollback(context.Background()) })
	if err := holdPut(f, workqueue.Pgx(holder)); err != nil {
		f.Fatal(err)
	}
	return holder
}

// A trigger waits for an open delete, or its occurrence would be left without a schedule.
func TestATriggerWaitsForTheDelete(t *testing.T) {
	t.Parallel()
	for name, fire := range map[string]func(*fixture, workqueue.Tx) error{"trigger": trigger, "backfill": backfill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{}))
			deleting, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer deleting.Rollback(context.WithoutCancel(t.Context()))
			if err := f.plan.Delete(t.Context(), workqueue.Pgx(deleting), "s"); err != nil {
				t.Fatal(err)
			}
			fired := make(chan error, 1)
			go func() { fired <- f.inTx(func(tx workqueue.Tx) error { return fire(f, tx) }) }()
			f.until("it waits, or is through", func() bool { return f.somebodyWaits() || len(fired) > 0 })
			if err := deleting.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-fired; !errors.Is(err, workqueue.ErrNotFound) || len(f.runs("s")) != 0 {
				t.Errorf("got %v and %d runs", err, len(f.runs("s")))
			}
		})
	}
}

// An application and the scheduler write the same occurrence, and both lock the schedule's row.
func TestABackfillDoesNotDeadlockWithTheDecision(t *testing.T) {
	t.Parallel()
	f, inside, goOn := newHeldPlan(t)
	f.put(hourly(schedule.Rule{}))
	f.missed("s", time.Hour)
	f.scheduler()
	<-inside
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- f.inTx(func(tx workqueue.Tx) error {
			close(started)
			if err := backfill(f, tx); err != nil {
				return err
			}
			return holdPut(f, tx)
		})
	}()
	<-started
	f.until("the application waits for the decision", f.somebodyWaits)
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	f.until("it is written", func() bool { return f.get("s").Fired == 1 })
	if got := f.get("s"); got.LastError != "" {
		t.Errorf("the scheduler met %s", got.LastError)
	}
}

// beforeTheLock calls change once, before a scheduler locks the row that it has read.
type beforeTheLock struct{ change func() }

func (b *beforeTheLock) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "xmin::pg_catalog.text =") && b.change != nil {
		change := b.change
		b.change = nil
		change()
	}
	return ctx
}

func (*beforeTheLock) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A decision is not carried out if the row was changed after it was read.
func TestAChangeBeforeTheLockOfTheDecision(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(f *fixture, tx workqueue.Tx) error
		runs   int
	}{
		"put": {func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: "@every 1h", Template: []byte("new")})
		}, 1},
		"put anew": {func(f *fixture, tx workqueue.Tx) error {
			return f.plan.Put(f.Context(), tx, periodic.Schedule{Name: "s", Expr: "@every 2h", Template: []byte("new")})
		}, 1},
		"pause":  {func(f *fixture, tx workqueue.Tx) error { return f.plan.Pause(f.Context(), tx, "s") }, 0},
		"delete": {func(f *fixture, tx workqueue.Tx) error { return f.plan.Delete(f.Context(), tx, "s") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlan(t)
			f.put(hourly(schedule.Rule{}))
			f.missed("s", time.Hour)
			changed := make(chan error, 1)
			tracer := &beforeTheLock{change: func() {
				changed <- f.inTx(func(tx workqueue.Tx) error {
					return c.change(f, tx)
				})
			}}
			pool := pgtest.NewPool(t, f.DB,
				pgtest.WithPool(func(config *pgxpool.Config) { config.ConnConfig.Tracer = tracer }))
			f.schedulerOn(pool, f.plan,
				periodic.SchedulerOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
			if err := <-changed; err != nil {
				t.Fatal(err)
			}
			f.until("a scheduler has decided", func() bool {
				return ask[bool](f, "SELECT coalesce(bool_and(status = 0 AND due_at > now() + interval '20 "+
					"minutes'), true) FROM "+f.table)
			})
			if n := ask[int](f, "SELECT count(*) FROM runs WHERE template = 'new'"); n != c.runs ||
				len(f.runs("s")) != c.runs {
				t.Errorf("%d runs, %d of them by what was put; want %d", len(f.runs("s")), n, c.runs)
			}
		})
	}
}
