package jobs_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Resize is the args of a job that resizes an image.
type Resize struct {
	Image string
	Width int
}

func (Resize) Kind() string { return "image.resize" }

// A job is enqueued in the transaction that makes it necessary, and runs once that has committed.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, schema, closePool := exampleDatabase() // with the tables of jobs.DDL
	defer closePool()

	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, job *jobs.Job[Resize]) error {
		fmt.Printf("%s to %d pixels, attempt %d\n", job.Args.Image, job.Args.Width, job.Attempt)
		stop()
		return nil
	}, jobs.KindOptions[Resize]{Timeout: time.Minute, MaxAttempts: 5})
	client, err := jobs.Open(jobs.Options{Schema: schema, Registry: kinds})
	if err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := client.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: Resize{"cat.png", 640}})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	worker, err := jobs.NewWorker(pool, client, jobs.WorkerOptions{Registry: kinds})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// cat.png to 640 pixels, attempt 1
}

// The jobs of an image run one at a time, in the order in which they were committed. A second job for the same image
// and width replaces the first for as long as that has not started.
func ExampleKindOptions() {
	kinds := jobs.NewRegistry()
	jobs.Declare(kinds, jobs.KindOptions[Resize]{
		Queue:       "images",
		Priority:    jobs.Low,
		MaxAttempts: jobs.QuadraticAttempts,
		Retry:       jobs.Quadratic,
		Unique:      &jobs.Unique{OnConflict: jobs.Replace},
		ByKey:       func(r Resize) keyed.Rule { return keyed.Ordered{Key: "image:" + r.Image} },
	})
}

// The first part of the handler is not repeated when the second one fails.
func ExampleStep() {
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, job *jobs.Job[Resize]) error {
		original, err := jobs.Step(ctx, job, "download", func(ctx context.Context) (string, error) {
			return download(ctx, job.Args.Image)
		})
		if err != nil {
			return err
		}
		if err := job.SetProgress(ctx, 50, "downloaded"); err != nil {
			return err
		}
		return job.Tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO images VALUES ($1)", original); err != nil {
				return err
			}
			return job.Output(ctx, map[string]int{"width": job.Args.Width})
		})
	}, jobs.KindOptions[Resize]{})
}

func download(_ context.Context, image string) (string, error) { return "/tmp/" + image, nil }

// The job runs at six in the morning of every working day in Berlin, and never twice at the same time.
func ExampleSchedules() {
	put := func(ctx context.Context, client *jobs.Client, tx pgx.Tx) error {
		return client.Schedules().Put(ctx, workqueue.Pgx(tx), jobs.Schedule{
			Name: "previews", Expr: "0 6 * * 1-5", Zone: "Europe/Berlin",
			Rule: schedule.Rule{Overlap: schedule.OverlapSkip},
			Args: Resize{"previews/*", 64},
		})
	}
	_ = put
}

// Over all workers and processes, at most four images are resized at once, and at most two are started in a second.
func ExampleClient_SetLimits() {
	limit := func(ctx context.Context, client *jobs.Client, tx pgx.Tx) error {
		return client.SetLimits(ctx, workqueue.Pgx(tx), "images", jobs.Limits{MaxRunning: 4, Rate: 2})
	}
	_ = limit
}

// Handlers get their args decoded. Middleware, such as that of one kind, can decode them itself.
func ExampleMiddleware() {
	audit := func(next jobs.Handler) jobs.Handler {
		return codec.Handler(func(ctx context.Context, d *jobs.Delivery, r Resize) error {
			log.Println("resizing", r.Image, "in attempt", d.Attempt)
			return next(ctx, d)
		})
	}
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[Resize]) error { return nil },
		jobs.KindOptions[Resize]{Middleware: []jobs.Middleware{audit}})
}

// Args, outputs and results of steps are encrypted before they are stored.
func ExampleOptions_codec() {
	open := func(kinds *jobs.Registry, secret []byte) (*jobs.Client, error) {
		sealed, err := aesgcm.New(aesgcm.Options{
			Current: aesgcm.Key{ID: "2026-01", Secret: secret},
			Inner:   jobs.DefaultCodec{},
		})
		if err != nil {
			return nil, err
		}
		return jobs.Open(jobs.Options{Registry: kinds, Codec: sealed})
	}
	_ = open
}
