// Images makes thumbnails in background jobs. A job has steps, and a step that has succeeded is not repeated when a
// later one fails. Every program can read the progress of a job. One job is cancelled while it runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue"
)

const images = 40

// Thumbnails are the arguments of a job. They are stored as JSON.
type Thumbnails struct {
	Image string
	Huge  bool
}

// Kind implements [jobs.Args]. It is the name of this kind of job in the table.
func (Thumbnails) Kind() string { return "thumbnails" }

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	if err := example.Fresh(ctx, pool, "example_images",
		`CREATE TABLE example_images.thumbnails (image text, pixels int)`); err != nil {
		return err
	}
	// A registry has the handler and the settings of each kind. If one program enqueues jobs and another runs them,
	// both need the same registry.
	studio := &studio{}
	registry := jobs.NewRegistry()
	jobs.Register(registry, studio.thumbnails, jobs.KindOptions[Thumbnails]{
		Queue:   "images",
		Timeout: time.Minute,
		Retry:   workqueue.Retry{Growth: workqueue.Exponential, Base: 50 * time.Millisecond, Cap: time.Minute},
	})
	client, err := jobs.Open(jobs.Options{Schema: "example_images", Registry: registry})
	if err != nil {
		return err
	}
	worker, err := jobs.NewWorker(pool, client,
		jobs.WorkerOptions{Queues: []jobs.QueueOptions{{Name: "images", Concurrency: 8}}})
	if err != nil {
		return err
	}
	do := func(ctx context.Context) error { return upload(ctx, pool, client) }
	if err := example.Serve(ctx, do, worker.Run); err != nil {
		return err
	}
	return example.Reconcile(ctx, pool, `
		WITH j AS (SELECT * FROM example_images.jobs)
		VALUES ('jobs done', (SELECT count(*) FROM j WHERE status = 2), $1::bigint),
		('of these with progress 100', (SELECT count(*) FROM j WHERE status = 2 AND progress = 100), $1),
		('jobs cancelled', (SELECT count(*) FROM j WHERE cancelled_at IS NOT NULL), 1),
		('images fetched, once each', $2::bigint, $1 + 1),
		('images with two thumbnails', (SELECT count(*) FROM (SELECT FROM example_images.thumbnails
			GROUP BY image HAVING count(*) = 2 AND count(DISTINCT pixels) = 2) AS t), $1),
		('thumbnails', (SELECT count(*) FROM example_images.thumbnails), 2 * $1)`, images, studio.fetched.Load())
}

// A studio makes the thumbnails. It counts how many images it has fetched.
type studio struct{ fetched atomic.Int64 }

// thumbnails is the job's handler. After a failed attempt it runs again from the beginning, but steps that have
// succeeded before are not executed again: they return their stored results.
func (s *studio) thumbnails(ctx context.Context, job *jobs.Job[Thumbnails]) error {
	bytes, err := jobs.Step(ctx, job, "fetch", func(context.Context) (int, error) {
		s.fetched.Add(1)
		return 1000 * len(job.Args.Image), nil
	})
	if err != nil {
		return err
	}
	if job.Args.Huge {
		return endless(ctx, job)
	}
	for i, pixels := range []int{64, 256} {
		// StepTx records the step in the transaction in which it writes, so the writes happen exactly once, even if the
		// process dies.
		_, err := jobs.StepTx(ctx, job, fmt.Sprint("scale ", pixels), func(ctx context.Context, tx pgx.Tx) (int,
			error) {
			_, err := tx.Exec(ctx, `INSERT INTO example_images.thumbnails VALUES ($1, $2)`, job.Args.Image, pixels)
			return bytes / pixels, err
		})
		if err != nil {
			return err
		}
		if err := job.SetProgress(ctx, 50+50*i, fmt.Sprint(pixels, " pixels")); err != nil {
			return err
		}
		if i == 0 && job.Attempt == 1 {
			return errors.New("out of memory") // the next attempt continues with the second size
		}
	}
	return job.Output(ctx, bytes)
}

// endless works until its context is cancelled. Its result does not matter then, because the job ends as cancelled.
func endless(ctx context.Context, job *jobs.Job[Thumbnails]) error {
	if err := job.SetProgress(ctx, 1, "this may take a while"); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// upload enqueues a job for every image, and cancels the job of the huge image while it runs.
func upload(ctx context.Context, pool *pgxpool.Pool, client *jobs.Client) error {
	var huge uuid.UUID
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		inserts := []jobs.Insert{{Args: Thumbnails{Image: "poster.png", Huge: true}}}
		for i := range images {
			inserts = append(inserts, jobs.Insert{Args: Thumbnails{Image: fmt.Sprintf("photo-%d.jpg", i)}})
		}
		enqueued, err := client.EnqueueMany(ctx, workqueue.Pgx(tx), inserts...)
		if err == nil {
			huge = enqueued[0].ID
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := example.Until(ctx, pool, `SELECT progress = 1 FROM example_images.jobs WHERE id = $1`, huge); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		info, err := client.Get(ctx, workqueue.Pgx(tx), huge)
		if err != nil {
			return err
		}
		fmt.Printf("  %s %s is at %d %%: %s\n", info.Kind, info.Args, *info.Progress, info.ProgressNote)
		// The job may run in any process: its context is cancelled at once.
		_, err = client.Cancel(ctx, workqueue.Pgx(tx), "nobody needs it", huge)
		return err
	})
	if err != nil {
		return err
	}
	return example.Until(ctx, pool, `SELECT NOT EXISTS (SELECT FROM example_images.jobs WHERE completed_at IS NULL)`)
}
