package service_test

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/inbox/inboxhttp"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A service runs a relay, a consumer, timers, jobs, the schedules of timers and jobs, and the reaper.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()

	relay := must(outbox.NewRelay(pool, must(outbox.Open(outbox.Options{})), outbox.RelayOptions{}))
	relay.Handle("order.placed", func(ctx context.Context, m *outbox.Delivery) error { return nil /* publish */ })

	box := must(inbox.Open(inbox.Options{DedupWindow: 30 * 24 * time.Hour}))
	payments := must(inbox.NewWorker(pool, box, inbox.WorkerOptions{Consumer: "payments"}))
	payments.Handle("payment", func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error { return nil /* book */ })

	clock := must(timers.NewWorker(pool, must(timers.Open(timers.Options{})), timers.WorkerOptions{}))
	clock.Handle("reminder", func(ctx context.Context, t *timers.Delivery) error { return nil /* remind */ })

	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, j *jobs.Job[errand]) error { return nil /* run it */ },
		jobs.KindOptions[errand]{})
	worker := must(jobs.NewWorker(pool, must(jobs.Open(jobs.Options{Registry: kinds})), jobs.WorkerOptions{}))

	s := must(service.New(pool, service.Options{}, relay, payments, clock, worker))
	go http.ListenAndServe("127.0.0.1:8081", s.Handler()) // GET /readyz and /livez
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// An application's HTTP server runs beside a service. When one of them ends, the other stops, and main waits for both.
func ExampleService_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close() // after both have ended
	relay := must(outbox.NewRelay(pool, must(outbox.Open(outbox.Options{})), outbox.RelayOptions{}))
	relay.Handle("order.placed", func(ctx context.Context, m *outbox.Delivery) error { return nil /* publish */ })
	s := must(service.New(pool, service.Options{}, relay))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(http.ResponseWriter, *http.Request) { /* enqueue in a transaction */ })
	mux.Handle("GET /readyz", s.Handler())
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}

	serving := make(chan error, 1)
	go func() {
		err := server.ListenAndServe()
		stop() // the address is taken: stop the service, too
		serving <- err
	}()
	err := s.Run(ctx) // nil after a signal
	bound, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(bound)) // requests in flight finish
	if e := <-serving; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// The table of an inbox that is used without a worker is maintained, too: its old keys are deleted.
func ExampleOptions_tables() {
	ctx := context.Background()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	box := must(inbox.Open(inbox.Options{DedupWindow: 30 * 24 * time.Hour}))
	webhook := must(inboxhttp.Process(pool, box, inboxhttp.Options{Consumer: "billing", Source: "shop"},
		func(ctx context.Context, tx pgx.Tx, m *inboxhttp.Message) error { return nil /* book */ }))
	http.Handle("POST /payments", webhook)

	// The parts of the service, if there are any, follow the options.
	s := must(service.New(pool, service.Options{Tables: box.Tables()}))
	if err := s.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// One more queue of jobs is served for some time, and then no longer.
func ExampleService_Add() {
	ctx := context.Background()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(ctx context.Context, j *jobs.Job[errand]) error { return nil /* run it */ },
		jobs.KindOptions[errand]{})
	client := must(jobs.Open(jobs.Options{Registry: kinds}))
	s := must(service.New(pool, service.Options{}, must(jobs.NewWorker(pool, client, jobs.WorkerOptions{}))))
	go func() { log.Println(s.Run(ctx)) }()

	reports := must(jobs.NewWorker(pool, client, jobs.WorkerOptions{
		NoSchedules: true, // the first worker runs the schedules
		Queues:      []jobs.QueueOptions{{Name: "reports", Concurrency: 2}},
	}))
	if err := s.Add(ctx, reports); err != nil { // it claims
		log.Fatal(err)
	}
	if err := reports.SetConcurrency("reports", 10); err != nil {
		log.Fatal(err)
	}
	if err := s.Remove(ctx, reports); err != nil { // it has finished what it had begun
		log.Fatal(err)
	}
}
