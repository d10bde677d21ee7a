package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// jobStore is the table of package jobs, which keeps finished jobs.
type jobStore struct {
	client   *jobs.Client
	options  jobs.WorkerOptions
	inserted jobs.Insert // without args
}

// benchRetry is the backoff of attempts that fail on purpose. It is short, so that a drain does not end with a wait.
var benchRetry = workqueue.Retry{Growth: workqueue.Constant, Base: 100 * time.Millisecond}

func newJobStore(ctx context.Context, l *lab) (*jobStore, error) {
	if err := prepareJobs(ctx, l); err != nil {
		return nil, err
	}
	return openJobStore(l)
}

func prepareJobs(ctx context.Context, l *lab) error {
	up, down, err := jobs.DDL(l.schema)
	return l.prepare(ctx, up, down, err)
}

// openJobStore opens a table that exists.
func openJobStore(l *lab) (*jobStore, error) {
	client, err := jobs.Open(jobs.Options{Schema: l.schema, MaxArgs: MaxPayload, Retry: benchRetry,
		Telemetry: l.telemetry()})
	s := &jobStore{client: client}
	s.options.ShutdownTimeout = shutdownLimit
	return s, err
}

func (s *jobStore) table() string { return s.client.Table().Spec().Table }

func (s *jobStore) insert(ctx context.Context, tx pgx.Tx, parcels []parcel) error {
	inserts := make([]jobs.Insert, len(parcels))
	for i, p := range parcels {
		inserts[i] = s.inserted
		inserts[i].Args = p
	}
	_, err := s.client.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
	return err
}

func (s *jobStore) worker(pool *pgxpool.Pool, handle handle) (runner, error) {
	registry := jobs.NewRegistry()
	jobs.Register(registry, func(_ context.Context, job *jobs.Job[parcel]) error {
		return handle(job.Args.number, job.Attempt)
	}, jobs.KindOptions[parcel]{})
	options := s.options
	options.Registry = registry
	return jobs.NewWorker(pool, s.client, options)
}

func (s *jobStore) done(ctx context.Context, l *lab, _ int64) (n int64, err error) {
	err = l.meter.query(ctx, []any{&n}, "SELECT count(*) FROM "+l.in(s.table())+" WHERE status = 2")
	return n, err
}
