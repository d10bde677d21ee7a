package writers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

var quiet = workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}

// A fixture is a schema with all domains, and their workers.
type fixture struct {
	*testing.T
	db      *pgtest.DB
	workers map[string]txworktest.Worker // by domain

	handled *handled
}

// handled are the payloads that handlers got, in their order.
type handled struct {
	mu       sync.Mutex
	payloads []string
	fails    string // handlers of such a payload fail for good
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{T: t, db: pgtest.New(t, pgtest.Reused), handled: &handled{}}
	text, err := migrations.SQL(migrations.FileOptions{Schema: f.db.Schema})
	f.ok(err)
	f.db.Define(t, text)

	box, err := outbox.Open(outbox.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	relay, err := outbox.NewRelay(f.db.Pool, box, outbox.RelayOptions{})
	f.ok(err)
	relay.HandleAll(func(_ context.Context, m *outbox.Delivery) error { return f.take(m.Payload) })

	received, err := inbox.Open(inbox.Options{Schema: f.db.Schema, DedupWindow: 30 * 24 * time.Hour, Telemetry: quiet})
	f.ok(err)
	consumer, err := inbox.NewWorker(f.db.Pool, received, inbox.WorkerOptions{Consumer: "c"})
	f.ok(err)
	consumer.HandleAll(func(_ context.Context, _ pgx.Tx, m *inbox.Delivery) error { return f.take(m.Payload) })

	clock, err := timers.Open(timers.Options{Schema: f.db.Schema, Telemetry: quiet})
	f.ok(err)
	firing, err := timers.NewWorker(f.db.Pool, clock, timers.WorkerOptions{})
	f.ok(err)
	firing.HandleAll(func(_ context.Context, m *timers.Delivery) error { return f.take(m.Payload) })

	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(_ context.Context, job *jobs.Job[echo]) error { return f.take(job.Args.text) },
		jobs.KindOptions[echo]{})
	client, err := jobs.Open(jobs.Options{Schema: f.db.Schema, Registry: kinds, Telemetry: quiet})
	f.ok(err)
	worker, err := jobs.NewWorker(f.db.Pool, client, jobs.WorkerOptions{})
	f.ok(err)

	f.workers = map[string]txworktest.Worker{"outbox": relay, "inbox": consumer, "timers": firing, "jobs": worker}
	return f
}

// echo is a kind whose args keep their text.
type echo struct{ text []byte }

func (echo) Kind() string { return "echo" }

func (e *echo) UnmarshalJSON(text []byte) error {
	e.text = slices.Clone(text)
	return nil
}

func (f *fixture) take(payload []byte) error {
	f.handled.mu.Lock()
	defer f.handled.mu.Unlock()
	f.handled.payloads = append(f.handled.payloads, string(payload))
	if f.handled.fails != "" && strings.Contains(string(payload), f.handled.fails) {
		return workqueue.Permanent(errors.New("it fails"))
	}
	return nil
}

// with is the fixture for a subtest, one at a time.
func (f *fixture) with(t *testing.T) *fixture {
	return &fixture{T: t, db: f.db, workers: f.workers, handled: f.handled}
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// run drains a domain, and returns the payloads that its handlers got.
func (f *fixture) run(domain string) []string {
	f.Helper()
	f.handled.payloads = nil
	txworktest.Drain(f, f.db.Pool, f.workers[domain])
	return f.handled.payloads
}

// one executes a call of one of the functions, as SELECT * FROM txwork.outbox_enqueue(...).
func (f *fixture) one(call string, args ...any) (id uuid.UUID, duplicate bool) {
	f.Helper()
	f.ok(f.db.Pool.QueryRow(f.Context(), "SELECT id, duplicate FROM "+f.in(call), args...).Scan(&id, &duplicate))
	return id, duplicate
}

// in names the schema of the test in place of txwork.
func (f *fixture) in(sql string) string { return strings.ReplaceAll(sql, "txwork.", f.db.Schema+".") }

func ask[V any](f *fixture, query string, args ...any) (v V) {
	f.Helper()
	f.ok(f.db.Pool.QueryRow(f.Context(), f.in(query), args...).Scan(&v))
	return v
}
