package txworktest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

func TestTimers(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	tm, err := timers.Open(timers.Options{Schema: db.Schema})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(90 * 24 * time.Hour).Truncate(time.Second)
	err = pgx.BeginFunc(t.Context(), db.Pool, func(tx pgx.Tx) error {
		_, err := tm.Set(t.Context(), workqueue.Pgx(tx), timers.Timer{Key: "renewal-7", Topic: "renew",
			ScheduledAt: at})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	txworktest.RequireEnqueued(t, db.Pool, tm, txworktest.Topic("renew"), txworktest.Key("renewal-7"),
		txworktest.Column("fire_at", at))
	w, err := timers.NewWorker(db.Pool, tm, timers.WorkerOptions{NoSchedules: true})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("renew", func(_ context.Context, d *timers.Delivery) error {
		if !d.ScheduledAt.Equal(at) {
			t.Errorf("nominal time %v, want %v", d.ScheduledAt, at)
		}
		return nil
	})
	wantOutcomes(t, txworktest.Drain(t, db.Pool, w), "")
	db.Advance(t, db.Pool, 91*24*time.Hour)
	wantOutcomes(t, txworktest.Drain(t, db.Pool, w), "done")
}

func TestInbox(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	box, err := inbox.Open(inbox.Options{
		Schema: db.Schema, DedupWindow: 24 * time.Hour, MaxAttempts: 3,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := inbox.NewWorker(db.Pool, box, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleAll(codec.HandlerIn(func(_ context.Context, _ pgx.Tx, _ *inbox.Delivery, o order) error {
		if o.Order == 8 {
			return errors.New("no")
		}
		return nil
	}))
	receive := func(tx pgx.Tx) error {
		_, err := box.ReceiveMany(t.Context(), workqueue.Pgx(tx),
			inbox.Message{Consumer: "billing", Source: "shop", MessageID: "1", Value: order{7}},
			inbox.Message{Consumer: "billing", Source: "shop", MessageID: "2", Value: order{8}})
		return err
	}

	tx := db.Begin(t)
	if err := receive(tx); err != nil {
		t.Fatal(err)
	}
	txworktest.RequireEnqueued(t, tx, box, txworktest.JSON(order{7}))
	wantOutcomes(t, txworktest.Drain(t, tx, w), "done, retried")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := pgx.BeginFunc(t.Context(), db.Pool, receive); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.DrainAll(t, db.Pool, w), "done, retried, retried, failed")
}

// resize is the args of a job.
type resize struct{ Image string }

func (resize) Kind() string { return "resize" }

func TestJobs(t *testing.T) {
	t.Parallel()
	db := txworktest.Schema(t, txworktest.Server(t))
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, job *jobs.Job[resize]) error {
		width, err := jobs.Step(ctx, job, "measure", func(context.Context) (int, error) { return 640, nil })
		if err != nil || job.Args.Image == "" {
			return errors.Join(errors.New("no image"), err)
		}
		return job.Output(ctx, width)
	}, jobs.KindOptions[resize]{})
	client, err := jobs.Open(jobs.Options{
		Schema: db.Schema, Registry: kinds, MaxAttempts: 2,
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := jobs.NewWorker(db.Pool, client, jobs.WorkerOptions{Queues: []jobs.QueueOptions{{}, {Name: "images"}}})
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func(tx pgx.Tx) error {
		_, err := client.EnqueueMany(t.Context(), workqueue.Pgx(tx), jobs.Insert{Args: resize{}},
			jobs.Insert{Args: resize{"cat.png"}, Queue: "images"})
		return err
	}

	tx := db.Begin(t)
	if err := enqueue(tx); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.Drain(t, tx, w), "retried, done")
	row := txworktest.RequireStatus(t, tx, client, workqueue.Done, txworktest.JSON(resize{"cat.png"}))
	info, err := client.Get(t.Context(), workqueue.Pgx(tx), row.ID)
	if err != nil || string(info.Output) != "640" {
		t.Errorf("output %s, %v", info.Output, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	if err := pgx.BeginFunc(t.Context(), db.Pool, enqueue); err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.DrainAll(t, db.Pool, w), "retried, done, failed")
}

// several is a worker that consists of several parts, such as one that serves more than one queue.
type several struct{ *outbox.Relay }

func (s several) Drain() (*workqueue.Drain, error) {
	workers, err := s.workers()
	if err != nil {
		return nil, err
	}
	return workers.Drain()
}

func (s several) DrainIn(tx pgx.Tx) (*workqueue.Drain, error) {
	workers, err := s.workers()
	if err != nil {
		return nil, err
	}
	return workers.DrainIn(tx)
}

func (s several) workers() (workqueue.Workers, error) {
	_, err := s.Relay.Drain() // from then on no handler can be registered
	return append(s.Workers(), s.Workers()...), err
}

func TestWorkersOfSeveralParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "fails"}, outbox.Message{Topic: "ok"})
	w := several{f.relay(byTopic)}
	handled := txworktest.DrainAll(t, f.Pool, w)
	if len(handled) != 5 { // three attempts of one
		t.Errorf("%v", handled)
	}
	wantOutcomes(t, txworktest.DrainAll(t, f.Begin(t), w), "")
}
