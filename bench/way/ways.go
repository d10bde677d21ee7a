package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// ways are those that are counted.
var ways = []way{
	{name: "message", item: "txwork, an outbox message", migrate: migrate, open: openOutbox,
		finished: "SELECT count(*) = 1 FROM txwork.outbox WHERE completed_at IS NOT NULL AND failed_at IS NULL"},
	{name: "job", item: "txwork, a job with a key's limit and one retry", migrate: migrate, open: openJobs,
		finished: "SELECT count(*) = 1 FROM txwork.jobs WHERE completed_at IS NOT NULL AND failed_at IS NULL"},
	{name: "river", item: "River, a job", migrate: migrateRiver, open: openRiver,
		finished: "SELECT count(*) = 1 FROM river_job WHERE state = 'completed'"},
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := migrations.New(pool, migrations.Options{Logger: quiet})
	if err == nil {
		_, err = m.Up(ctx)
	}
	return err
}

func openOutbox(pool *pgxpool.Pool, done func()) (work, enqueue func(context.Context) error, err error) {
	box, err := outbox.Open(outbox.Options{Telemetry: workqueue.Telemetry{Logger: quiet}})
	if err != nil {
		return nil, nil, err
	}
	relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{})
	if err != nil {
		return nil, nil, err
	}
	relay.HandleAll(func(context.Context, *outbox.Delivery) error { done(); return nil })
	return relay.Run, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := box.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "t", Payload: []byte("{}")})
			return err
		})
	}, nil
}

// resize is the arguments of a job.
type resize struct {
	Image string `json:"image"`
}

// Kind is the kind of txwork's jobs and of River's.
func (resize) Kind() string { return "resize" }

func openJobs(pool *pgxpool.Pool, done func()) (work, enqueue func(context.Context) error, err error) {
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(_ context.Context, j *jobs.Job[resize]) error {
		if j.Attempt == 1 {
			return errors.New("the first attempt fails")
		}
		done()
		return nil
	}, jobs.KindOptions[resize]{
		ByKey: func(r resize) keyed.Rule { return keyed.Limited{Key: r.Image, MaxRunning: 2} },
		Retry: workqueue.Retry{Growth: workqueue.Constant, Base: 100 * time.Millisecond, Cap: 100 * time.Millisecond},
	})
	client, err := jobs.Open(jobs.Options{Registry: kinds, Telemetry: workqueue.Telemetry{Logger: quiet}})
	if err != nil {
		return nil, nil, err
	}
	worker, err := jobs.NewWorker(pool, client, jobs.WorkerOptions{Registry: kinds})
	if err != nil {
		return nil, nil, err
	}
	return worker.Run, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: resize{"cat.png"}})
			return err
		})
	}, nil
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

// A riverWorker handles the job of River.
type riverWorker struct {
	river.WorkerDefaults[resize]
	done func()
}

// Work implements [river.Worker].
func (w *riverWorker) Work(context.Context, *river.Job[resize]) error { w.done(); return nil }

func openRiver(pool *pgxpool.Pool, done func()) (work, enqueue func(context.Context) error, err error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{done: done})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}, Workers: workers,
	})
	if err != nil {
		return nil, nil, err
	}
	work = func(ctx context.Context) error {
		// The client does not get ctx, because its end would cancel running jobs, which Stop lets finish.
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		<-ctx.Done()
		return client.Stop(context.WithoutCancel(ctx))
	}
	return work, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, resize{"cat.png"}, nil)
			return err
		})
	}, nil
}
