package jobs_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

// Everything works in every exec mode of pgx, because behind a pooler pgx may not use prepared statements.
func TestEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			f := newJobs(t)
			config, err := pgxpool.ParseConfig(f.URL)
			f.ok(err)
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			f.ok(err)
			t.Cleanup(pool.Close)
			f.Pool = pool

			jobs.Register(f.kinds, func(ctx context.Context, job *jobs.Job[mail]) error {
				pages, err := jobs.Step(ctx, job, "count", func(context.Context) (int, error) { return 7, nil })
				if err != nil {
					return err
				}
				if err := job.SetProgress(ctx, 50, "half"); err != nil {
					return err
				}
				if job.Attempt == 1 {
					return workqueue.RetryNow(context.Canceled)
				}
				return job.Tx(ctx, func(tx pgx.Tx) error { return job.Output(ctx, pages) })
			}, jobs.KindOptions[mail]{})
			f.limit("default", jobs.Limits{MaxRunning: 1, Rate: 1000})
			o := jobs.Insert{Unique: &jobs.Unique{While: jobs.WhileDone, OnConflict: jobs.Replace}}
			id := f.enqueue(mail{}, o).ID
			f.enqueue(mail{}, o) // before a worker runs: a replaced job has no attempts
			f.work(jobs.WorkerOptions{})
			info := f.await(id, workqueue.Done)
			equal(t, "output", string(info.Output), "7")
			equal(t, "progress", *info.Progress, 50)
			equal(t, "history", len(f.history(id)), 2)
			equal(t, "slots", f.slots(), 0)
		})
	}
}
