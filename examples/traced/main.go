// Traced follows one order through two services with OpenTelemetry: a request, its transaction, the message in the
// outbox, its delivery over HTTP, the consumer's inbox, a job and a timer. It prints the hops from span to span, and
// checks each of them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/txwork/txwork/examples/internal/example"
	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/service"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

const schema = "example_traced"

func main() { example.Main(run) }

func run(ctx context.Context, pool *pgxpool.Pool) error {
	// This example keeps the spans in memory; a real application exports them to a collector. The other lines are the
	// same in an application: txwork uses the global providers.
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})

	if err := example.Fresh(ctx, pool, schema, `CREATE TABLE example_traced.orders (id text PRIMARY KEY)`); err != nil {
		return err
	}
	s, err := open(pool)
	if err != nil {
		return err
	}
	shop, billing := httptest.NewServer(traced("POST /orders", s.takeOrder)),
		httptest.NewServer(traced("POST /bills", s.receive))
	defer shop.Close()
	defer billing.Close()
	s.billing = billing.URL
	parts, err := s.parts()
	if err != nil {
		return err
	}
	all, err := service.New(pool, service.Options{}, parts...)
	if err != nil {
		return err
	}
	order := func(ctx context.Context) error {
		if err := post(ctx, shop.URL, "order 7", []byte("7")); err != nil {
			return err
		}
		return example.Until(ctx, pool, `SELECT EXISTS (SELECT FROM example_traced.timers WHERE status = 2)`)
	}
	if err := example.Serve(ctx, order, all.Run); err != nil {
		return err
	}
	return reconcile(spans.GetSpans().Snapshots())
}

// services are the two services of the example: a shop with an outbox, and billing with an inbox, jobs and timers.
type services struct {
	pool    *pgxpool.Pool
	outbox  *outbox.Outbox
	inbox   *inbox.Inbox
	timers  *timers.Timers
	jobs    *jobs.Client
	kinds   *jobs.Registry
	billing string // its URL
}

func open(pool *pgxpool.Pool) (s services, err error) {
	s.pool, s.kinds = pool, jobs.NewRegistry()
	if s.outbox, err = outbox.Open(outbox.Options{Schema: schema}); err != nil {
		return s, err
	}
	if s.inbox, err = inbox.Open(inbox.Options{Schema: schema, DedupWindow: 30 * 24 * time.Hour}); err != nil {
		return s, err
	}
	if s.timers, err = timers.Open(timers.Options{Schema: schema}); err != nil {
		return s, err
	}
	s.jobs, err = jobs.Open(jobs.Options{Schema: schema, Registry: s.kinds})
	return s, err
}

func (s *services) parts() ([]service.Part, error) {
	relay, err := outbox.NewRelay(s.pool, s.outbox, outbox.RelayOptions{})
	if err != nil {
		return nil, err
	}
	relay.Handle("order.placed", s.deliver)
	consumer, err := inbox.NewWorker(s.pool, s.inbox, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		return nil, err
	}
	consumer.Handle("order.placed", s.bill)
	clock, err := timers.NewWorker(s.pool, s.timers, timers.WorkerOptions{})
	if err != nil {
		return nil, err
	}
	clock.Handle("reminder", func(context.Context, *timers.Delivery) error { return nil })
	jobs.Register(s.kinds, s.print, jobs.KindOptions[invoice]{})
	worker, err := jobs.NewWorker(s.pool, s.jobs, jobs.WorkerOptions{})
	return []service.Part{relay, consumer, clock, worker}, err
}

// takeOrder is the shop's HTTP handler. It passes the request's context to Enqueue, so the message carries the
// request's trace.
func (s *services) takeOrder(ctx context.Context, _ *http.Request, body []byte) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO example_traced.orders VALUES ($1)`, string(body)); err != nil {
			return err
		}
		_, err := s.outbox.Enqueue(ctx, workqueue.Pgx(tx), outbox.Message{Topic: "order.placed", Payload: body})
		return err
	})
}

// deliver is the relay's handler. Its context has the span of the delivery, which is linked to the span that wrote the
// message.
func (s *services) deliver(ctx context.Context, m *outbox.Delivery) error {
	return post(ctx, s.billing, m.ID.String(), m.Payload)
}

// receive is billing's HTTP handler. It stores the message with the trace of the delivery.
func (s *services) receive(ctx context.Context, r *http.Request, body []byte) error {
	return workqueue.InTx(ctx, s.pool, func(tx workqueue.Tx) error {
		_, err := s.inbox.Receive(ctx, tx, inbox.Message{
			Consumer: "billing", Source: "shop", MessageID: r.Header.Get("Idempotency-Key"), Topic: "order.placed",
			Payload: body,
		})
		return err
	})
}

// bill is the handler of the inbox's worker. The spans of what it writes are children of the span in which it runs.
func (s *services) bill(ctx context.Context, tx pgx.Tx, d *inbox.Delivery) error {
	if _, err := s.timers.Set(ctx, workqueue.Pgx(tx), timers.Timer{Key: "reminder", Topic: "reminder",
		Delay: time.Hour}); err != nil {
		return err
	}
	_, err := s.jobs.Enqueue(ctx, workqueue.Pgx(tx), jobs.Insert{Args: invoice{Order: string(d.Payload)}})
	return err
}

type invoice struct{ Order string }

func (invoice) Kind() string { return "invoice" }

// print is the job's handler. It sets the timer again, to fire now. The timer's firing is therefore linked to this job,
// and no longer to bill.
func (s *services) print(ctx context.Context, j *jobs.Job[invoice]) error {
	return workqueue.InTx(ctx, s.pool, func(tx workqueue.Tx) error {
		_, err := s.timers.Set(ctx, tx, timers.Timer{Key: "reminder", Topic: "reminder"})
		return err
	})
}

var tracer = otel.Tracer("example")

// traced runs a handler in a span that continues the caller's trace, as the middleware of otelhttp does.
func traced(name string, handle func(context.Context, *http.Request, []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = handle(ctx, r, body)
		}
		if err != nil {
			span.RecordError(err)
			http.Error(w, "it did not work", http.StatusInternalServerError)
		}
	}
}

// post sends a request with the trace context in its headers, as the transport of otelhttp does.
func post(ctx context.Context, url, id string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return workqueue.Permanent(err)
	}
	request.Header.Set("Idempotency-Key", id)
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(request.Header))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}
