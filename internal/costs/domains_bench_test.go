package costs_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// A benched is a domain as BenchmarkDomains sees it.
type benched struct {
	ddl     func() (up, down string, err error)
	enqueue func(ctx context.Context, tx workqueue.Tx, first, n int) error
	drain   func(pool *pgxpool.Pool) (*workqueue.Drain, error)
}

// BenchmarkDomains enqueues and drains thousands of rows of each domain, and reports the allocations of both:
//
//	go test ./internal/costs -run '^$' -bench Domains -benchtime 10x
func BenchmarkDomains(b *testing.B) {
	for name, open := range map[string]func(schema string) (benched, error){
		"outbox": func(schema string) (benched, error) { return benchedOutbox(outbox.Options{Schema: schema}) },
		"ordered": func(schema string) (benched, error) {
			return benchedOutbox(outbox.Options{Schema: schema, Ordering: outbox.PerKey})
		},
		"inbox":  benchedInbox,
		"timers": benchedTimers,
		"jobs":   benchedJobs,
	} {
		b.Run(name, func(b *testing.B) { benchmarkDomain(b, open) })
	}
}

// openBenched creates the table of a domain. must ends the benchmark with an error.
func openBenched(b *testing.B, open func(schema string) (benched, error)) (db *pgtest.DB, d benched,
	must func(error)) {
	db = pgtest.New(b)
	must = func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	d, err := open(db.Schema)
	must(err)
	up, _, err := d.ddl()
	must(err)
	_, err = db.Pool.Exec(b.Context(), up)
	must(err)
	return db, d, must
}

func benchmarkDomain(b *testing.B, open func(schema string) (benched, error)) {
	db, d, must := openBenched(b, open)
	drain, err := d.drain(db.Pool)
	must(err)
	var enqueueing, draining time.Duration
	var enqueued, drained uint64
	written := 0
	turn := func() {
		before, start := mallocs(), time.Now()
		must(pgx.BeginFunc(b.Context(), db.Pool, func(tx pgx.Tx) error {
			return d.enqueue(b.Context(), workqueue.Pgx(tx), written, enqueueBatch)
		}))
		written += enqueueBatch
		between, middle := mallocs(), time.Now()
		for n, done := 0, 0; done < enqueueBatch; done += n {
			n, err = drain.Process(b.Context())
			must(err)
		}
		enqueued, drained = enqueued+between-before, drained+mallocs()-between
		enqueueing, draining = enqueueing+middle.Sub(start), draining+time.Since(middle)
	}
	turn() // fills caches that are filled once
	enqueueing, draining, enqueued, drained = 0, 0, 0, 0
	for b.Loop() {
		turn()
	}
	rows := float64(b.N * enqueueBatch)
	b.ReportMetric(float64(enqueued)/rows, "allocs/enqueued")
	b.ReportMetric(float64(drained)/rows, "allocs/drained")
	b.ReportMetric(rows/enqueueing.Seconds(), "enqueued/s")
	b.ReportMetric(rows/draining.Seconds(), "drained/s")
}

var benchOptions = workqueue.WorkerOptions{Concurrency: 1000}

func benchedOutbox(o outbox.Options) (benched, error) {
	box, err := outbox.Open(o)
	return benched{
		ddl: func() (string, string, error) { return box.DDL() },
		enqueue: func(ctx context.Context, tx workqueue.Tx, first, n int) error {
			msgs := make([]outbox.Message, n)
			for i := range msgs {
				msgs[i] = outbox.Message{Topic: "bench", Key: strconv.Itoa(first + i),
					Payload: []byte("nineteen bytes here")}
			}
			_, err := box.EnqueueMany(ctx, tx, msgs...)
			return err
		},
		drain: func(pool *pgxpool.Pool) (*workqueue.Drain, error) {
			relay, err := outbox.NewRelay(pool, box, outbox.RelayOptions{WorkerOptions: benchOptions})
			if err != nil {
				return nil, err
			}
			relay.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
			return relay.Drain()
		},
	}, err
}

func benchedInbox(schema string) (benched, error) {
	box, err := inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour})
	return benched{
		ddl: func() (string, string, error) { return box.DDL() },
		enqueue: func(ctx context.Context, tx workqueue.Tx, first, n int) error {
			msgs := make([]inbox.Message, n)
			for i := range msgs {
				msgs[i] = inbox.Message{Consumer: "bench", Source: "bench", MessageID: strconv.Itoa(first + i),
					Payload: []byte("nineteen bytes here")}
			}
			_, err := box.ReceiveMany(ctx, tx, msgs...)
			return err
		},
		drain: func(pool *pgxpool.Pool) (*workqueue.Drain, error) {
			w, err := inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "bench", WorkerOptions: benchOptions})
			if err != nil {
				return nil, err
			}
			w.HandleAll(func(context.Context, pgx.Tx, *inbox.Delivery) error { return nil })
			return w.Drain()
		},
	}, err
}

func benchedTimers(schema string) (benched, error) {
	t, err := timers.Open(timers.Options{Schema: schema})
	return benched{
		ddl: func() (string, string, error) { return timers.DDL(schema) },
		enqueue: func(ctx context.Context, tx workqueue.Tx, first, n int) error {
			set := make([]timers.Timer, n)
			for i := range set {
				set[i] = timers.Timer{Key: strconv.Itoa(first + i), Topic: "bench",
					Payload: []byte("nineteen bytes here")}
			}
			_, err := t.SetMany(ctx, tx, set...)
			return err
		},
		drain: func(pool *pgxpool.Pool) (*workqueue.Drain, error) {
			w, err := timers.NewWorker(pool, t, timers.WorkerOptions{NoSchedules: true, WorkerOptions: benchOptions})
			if err != nil {
				return nil, err
			}
			w.HandleAll(func(context.Context, *timers.Delivery) error { return nil })
			return w.Drain()
		},
	}, err
}

func benchedJobs(schema string) (benched, error) {
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[errand]) error { return nil }, jobs.KindOptions[errand]{})
	client, err := jobs.Open(jobs.Options{Schema: schema, Registry: kinds})
	return benched{
		ddl: func() (string, string, error) { return jobs.DDL(schema) },
		enqueue: func(ctx context.Context, tx workqueue.Tx, _, n int) error {
			inserts := make([]jobs.Insert, n)
			for i := range inserts {
				inserts[i].Args = anErrand
			}
			_, err := client.EnqueueMany(ctx, tx, inserts...)
			return err
		},
		drain: func(pool *pgxpool.Pool) (*workqueue.Drain, error) {
			w, err := jobs.NewWorker(pool, client, jobs.WorkerOptions{NoSchedules: true, WorkerOptions: benchOptions})
			if err != nil {
				return nil, err
			}
			return w.Drain()
		},
	}, err
}
