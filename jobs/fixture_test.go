package jobs_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const patience = pgtest.Patience

// mail is the args of the kind that most tests enqueue.
type mail struct {
	To string `json:"to"`
}

func (mail) Kind() string { return "mail" }

// report is the args of another kind.
type report struct{ Month int }

func (report) Kind() string { return "report" }

// atOnce is a backoff without a delay, and hour one that outlasts every test.
var (
	atOnce = workqueue.Retry{Growth: workqueue.Constant}
	hour   = workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}
)

// fixture is the jobs' tables in a schema of their own.
type fixture struct {
	*testing.T
	*pgtest.DB
	kinds  *jobs.Registry
	client *jobs.Client
	table  string // qualified
}

// newJobs creates the tables and opens a client on them. Failed attempts are retried after an hour, so that a test sees
// the state that they leave.
func newJobs(t *testing.T, configure ...func(*jobs.Options)) *fixture {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	f := &fixture{T: t, DB: db, kinds: jobs.NewRegistry()}
	o := jobs.Options{
		Schema:    db.Schema,
		Registry:  f.kinds,
		Retry:     hour,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}
	for _, change := range configure {
		change(&o)
	}
	f.client = f.open(o)
	f.table = f.client.Table().Name()
	up, _, err := jobs.DDL(db.Schema)
	f.ok(err)
	f.Define(t, up)
	return f
}

// anyKind makes the client accept kinds that the test does not register.
func anyKind(o *jobs.Options) { o.Registry = nil }

func (f *fixture) open(o jobs.Options) *jobs.Client {
	f.Helper()
	c, err := jobs.Open(o)
	f.ok(err)
	return c
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	_, err := f.Pool.Exec(f.Context(), query, args...)
	f.ok(err)
}

// ask returns the one value of a query.
func ask[V any](f *fixture, query string, args ...any) (v V) {
	f.Helper()
	f.ok(f.Pool.QueryRow(f.Context(), query, args...).Scan(&v))
	return v
}

// inTx runs work in a transaction that commits.
func (f *fixture) inTx(work func(tx workqueue.Tx) error) {
	f.Helper()
	f.ok(f.try(work))
}

func (f *fixture) try(work func(tx workqueue.Tx) error) error {
	return pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error { return work(workqueue.Pgx(tx)) })
}

// enqueue writes a job in a transaction of its own, with at most one set of settings.
func (f *fixture) enqueue(args jobs.Args, settings ...jobs.Insert) workqueue.Enqueued {
	f.Helper()
	var enqueued workqueue.Enqueued
	var job jobs.Insert
	for _, job = range settings {
	}
	job.Args = args
	f.inTx(func(tx workqueue.Tx) (err error) {
		enqueued, err = f.client.Enqueue(f.Context(), tx, job)
		return err
	})
	return enqueued
}

// many writes jobs in a transaction of their own.
func (f *fixture) many(inserts ...jobs.Insert) []workqueue.Enqueued {
	f.Helper()
	var enqueued []workqueue.Enqueued
	f.inTx(func(tx workqueue.Tx) (err error) {
		enqueued, err = f.client.EnqueueMany(f.Context(), tx, inserts...)
		return err
	})
	return enqueued
}

// refuse enqueues a job that must be refused, and returns the error.
func (f *fixture) refuse(args jobs.Args, job jobs.Insert) error {
	f.Helper()
	job.Args = args
	err := f.try(func(tx workqueue.Tx) error {
		_, err := f.client.Enqueue(f.Context(), tx, job)
		return err
	})
	if err == nil {
		f.Fatal("the job was accepted")
	}
	return err
}

func (f *fixture) get(id uuid.UUID) (info jobs.Info) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		info, err = f.client.Get(f.Context(), tx, id)
		return err
	})
	return info
}

func (f *fixture) history(id uuid.UUID) (list []jobs.Attempt) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		list, err = f.client.History(f.Context(), tx, id)
		return err
	})
	return list
}

// work runs a worker, by default with the handlers of f.kinds, until the test ends.
func (f *fixture) work(o jobs.WorkerOptions) (stop func()) {
	f.Helper()
	o.Registry = cmp.Or(o.Registry, f.kinds)
	w, err := jobs.NewWorker(f.Pool, f.client, o)
	f.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	f.Cleanup(stop)
	return stop
}

// until waits for a condition.
func (f *fixture) until(what string, holds func() bool) {
	f.Helper()
	if !pgtest.Await(patience, holds) {
		f.Fatalf("not within %v: %s", patience, what)
	}
}

// await waits until a job has the status.
func (f *fixture) await(id uuid.UUID, status workqueue.Status) jobs.Info {
	f.Helper()
	var info jobs.Info
	f.until(fmt.Sprintf("job %s is %v", id, status), func() bool {
		info = f.get(id)
		return info.Status == status
	})
	return info
}

// attempted waits until an attempt of a job has ended.
func (f *fixture) attempted(id uuid.UUID) jobs.Info {
	f.Helper()
	f.until(fmt.Sprintf("an attempt of job %s has ended", id), func() bool {
		return ask[bool](f, "SELECT status <> 1 AND owner_token IS NOT NULL FROM "+f.table+" WHERE id = $1", id)
	})
	return f.get(id)
}

// receive waits for a value that a handler sends.
func receive[V any](t testing.TB, from <-chan V) (v V) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}

func equal[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// nothing is a handler that does nothing.
func nothing[T jobs.Args](context.Context, *jobs.Job[T]) error { return nil }
