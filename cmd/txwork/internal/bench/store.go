package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// A store is the table of package jobs.
type store struct {
	client  *jobs.Client
	options jobs.WorkerOptions
}

// shutdownLimit is the workers' shutdown timeout. Their handlers end at once, so a worker that needs longer waits for a
// server that has died.
const shutdownLimit = 5 * time.Second

// A handle is a no-op handler of a parcel.
type handle func(number int64, attempt int) error

// A runner runs until its context ends, as workers do.
type runner interface {
	Run(ctx context.Context) error
}

// benchRetry is the backoff of attempts that fail on purpose. It is short, so that a drain does not end with a wait.
var benchRetry = workqueue.Retry{Growth: workqueue.Constant, Base: 100 * time.Millisecond}

// newStore makes the table and opens it.
// newStore makes the table and opens it.
func newStore(ctx context.Context, l *lab) (*store, error) {
	up, _, err := jobs.DDL(l.schema)
	if err != nil {
		return nil, err
	}
	if err := l.meter.exec(ctx, up); err != nil {
		return nil, err
	}
	return openStore(l)
}

// openStore opens a table that exists.
func openStore(l *lab) (*store, error) {
	client, err := jobs.Open(jobs.Options{Schema: l.schema, MaxArgs: MaxPayload, Retry: benchRetry,
		Telemetry: l.telemetry()})
	s := &store{client: client}
	s.options.ShutdownTimeout = shutdownLimit
	return s, err
}

func (s *store) table() string { return s.client.Table().Spec().Table }

func (s *store) insert(ctx context.Context, tx pgx.Tx, parcels []parcel) error {
	inserts := make([]jobs.Insert, len(parcels))
	for i, p := range parcels {
		inserts[i] = jobs.Insert{Args: p}
	}
	_, err := s.client.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
	return err
}

// worker makes a worker with the default options, but for those that the workload sets, whose handler is handle.
// worker makes a worker with the default options, but for those that the workload sets, whose handler is handle.
func (s *store) worker(pool *pgxpool.Pool, handle handle) (runner, error) {
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(_ context.Context, job *jobs.Job[parcel]) error {
		return handle(job.Args.number, job.Attempt)
	}, jobs.KindOptions[parcel]{})
	options := s.options
	options.Registry = registry
	return jobs.NewWorker(pool, s.client, options)
}

// done counts the jobs that are done.
func (s *store) done(ctx context.Context, l *lab) (n int64, err error) {
	err = l.meter.query(ctx, []any{&n}, "SELECT count(*) FROM "+l.in(s.table())+" WHERE status = 2")
	return n, err
}
