package timers_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const (
	patience = pgtest.Patience
	slack    = pgtest.Slack
)

// fixture is timers in a schema of their own.
type fixture struct {
	*testing.T
	*pgtest.DB
	timers *timers.Timers
	table  string // qualified
}

// newTimers creates the tables and opens Timers on them. Failed attempts are retried only after an hour, so that a test
// sees the state that they leave.
func newTimers(t *testing.T, configure ...func(*timers.Options)) *fixture {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	o := timers.Options{
		Schema:    db.Schema,
		Retry:     workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour},
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}
	for _, change := range configure {
		change(&o)
	}
	ts, err := timers.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, DB: db, timers: ts, table: ts.Table().Name()}
	up, _, err := timers.DDL(db.Schema)
	if err != nil {
		t.Fatal(err)
	}
	f.Define(t, up)
	return f
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
}

// inTx runs work in a transaction that commits.
func (f *fixture) inTx(work func(tx workqueue.Tx) error) {
	f.Helper()
	err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error { return work(workqueue.Pgx(tx)) })
	if err != nil {
		f.Fatal(err)
	}
}

// set sets timers in a transaction of their own.
func (f *fixture) set(all ...timers.Timer) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) error {
		_, err := f.timers.SetMany(f.Context(), tx, all...)
		return err
	})
}

func (f *fixture) cancel(keys ...string) (cancelled []string) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		cancelled, err = f.timers.Cancel(f.Context(), tx, keys...)
		return err
	})
	return cancelled
}

func (f *fixture) get(key string) (i timers.Info) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		i, err = f.timers.Get(f.Context(), tx, key)
		i.Headers = sdktest.Untraced(i.Headers)
		return err
	})
	return i
}

// clock returns the time of the database's clock.
func (f *fixture) clock() time.Time { return ask[time.Time](f, "SELECT clock_timestamp()") }

// worker runs a worker until the test ends.
func (f *fixture) worker(o timers.WorkerOptions, register func(*timers.Worker)) (stop func()) {
	f.Helper()
	w, err := timers.NewWorker(f.Pool, f.timers, o)
	if err != nil {
		f.Fatal(err)
	}
	register(w)
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// timersOnly are the options of a worker without a scheduler.
func timersOnly() timers.WorkerOptions { return timers.WorkerOptions{NoSchedules: true} }

func ask[T any](f *fixture, query string, args ...any) (v T) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&v); err != nil {
		f.Fatalf("%s: %v", query, err)
	}
	return v
}

// until waits for a condition on the database.
func (f *fixture) until(what string, holds func() bool) {
	f.Helper()
	if !pgtest.Await(patience, holds) {
		f.Fatalf("not within %v: %s", patience, what)
	}
}

func (f *fixture) somebodyWaits() bool { return pgtest.SomebodyWaits(f, f.Pool, f.table) }

// receive waits for a value that a handler sends.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}
