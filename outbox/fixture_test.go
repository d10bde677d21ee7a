package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) {
	if os.Getenv(relayURL) != "" {
		os.Exit(runRelay())
	}
	goleak.VerifyTestMain(sdktest.Under(m))
}

const (
	patience = pgtest.Patience
	slack    = pgtest.Slack
)

// fixture is an outbox in a schema of its own.
type fixture struct {
	*testing.T
	*pgtest.DB
	box   *outbox.Outbox
	table string // qualified
}

// newOutbox creates the table and opens an Outbox on it. Failed attempts are retried only after an hour, so that a test
// sees the state that they leave.
func newOutbox(t *testing.T, configure ...func(*outbox.Options)) *fixture {
	t.Helper()
	o := options(configure...)
	return newOutboxIn(t, pgtest.New(t, pgtest.ReusedFor(fmt.Sprint(o.Storage))), o)
}

func options(configure ...func(*outbox.Options)) outbox.Options {
	o := outbox.Options{
		Retry:     workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour},
		Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}
	for _, change := range configure {
		change(&o)
	}
	return o
}

func newOutboxIn(t *testing.T, db *pgtest.DB, o outbox.Options) *fixture {
	t.Helper()
	o.Schema = db.Schema
	box, err := outbox.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, DB: db, box: box, table: box.Table().Name()}
	up, _, err := box.DDL()
	if err != nil {
		t.Fatal(err)
	}
	if o.Storage == outbox.MoveToLog { // which begins with rows
		rows, _, err := outbox.DDL(o.Schema)
		if err != nil {
			t.Fatal(err)
		}
		up += rows
	}
	f.Define(t, up)
	return f
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatal(err)
	}
}

// inTx runs work in a pgx transaction that commits.
func (f *fixture) inTx(work func(tx pgx.Tx) error) {
	f.Helper()
	if err := pgx.BeginFunc(f.Context(), f.Pool, work); err != nil {
		f.Fatal(err)
	}
}

// enqueue writes messages in a transaction of their own.
func (f *fixture) enqueue(msgs ...outbox.Message) []uuid.UUID {
	f.Helper()
	var enqueued []workqueue.Enqueued
	f.inTx(func(tx pgx.Tx) (err error) {
		enqueued, err = f.box.EnqueueMany(f.Context(), workqueue.Pgx(tx), msgs...)
		return err
	})
	return workqueue.IDs(enqueued)
}

// relay runs a relay until the test ends.
func (f *fixture) relay(o workqueue.WorkerOptions, register func(*outbox.Relay)) *outbox.Relay {
	f.Helper()
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{WorkerOptions: o})
	if err != nil {
		f.Fatal(err)
	}
	register(r)
	ctx, stop := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	return r
}

// row is a message as it is stored.
type row struct {
	Status    workqueue.Status
	Attempts  int
	Max       int
	LastError string
	Cancelled bool
	Topic     string
	Key       *string
	Payload   []byte
	DedupKey  *string
	Headers   map[string]string
	DueIn     time.Duration // since its creation
}

func (f *fixture) row(id uuid.UUID) row {
	f.Helper()
	var r row
	err := f.Pool.QueryRow(f.Context(),
		`SELECT status, attempts, max_attempts, coalesce(last_error, ''), cancelled_at IS NOT NULL,
			topic, key, payload, dedup_key, headers, due_at - created_at
		FROM `+f.table+` WHERE id = $1`, id).Scan(&r.Status, &r.Attempts, &r.Max, &r.LastError, &r.Cancelled,
		&r.Topic, &r.Key, &r.Payload, &r.DedupKey, &r.Headers, &r.DueIn)
	if err != nil {
		f.Fatalf("row %s: %v", id, err)
	}
	return r
}

func (f *fixture) count(query string, args ...any) (n int) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

// awaitWriters waits for the transactions under way that change a table.
func (f *fixture) awaitWriters(table string) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) error {
		_, err := tx.Exec(f.Context(), "LOCK TABLE "+table) // which they have locked until they end
		return err
	})
}

func (f *fixture) messages() int {
	f.Helper()
	return f.count("SELECT count(*) FROM " + f.table)
}

// until waits for a condition on the database.
func (f *fixture) until(what string, holds func() bool) {
	f.Helper()
	if !pgtest.Await(patience, holds) {
		f.Fatalf("not within %v: %s", patience, what)
	}
}

// settled waits until a message was claimed and has been settled.
func (f *fixture) settled(id uuid.UUID) row {
	f.Helper()
	f.until("message "+id.String()+" is settled", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE id = $1 AND status <> 1 AND owner_token IS NOT NULL",
			id) == 1
	})
	return f.row(id)
}

// receive waits for a value that a handler sends.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}
