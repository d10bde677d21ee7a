package inbox_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sdktest.Under(m)) }

const patience = pgtest.Patience

const day = 24 * time.Hour

// fixture is an inbox in a schema of its own, with a table of effects.
type fixture struct {
	*testing.T
	*pgtest.DB
	box   *inbox.Inbox
	table string // qualified
}

// newInbox creates the table and opens an Inbox on it. Failed attempts are retried only after an hour, so that a test
// sees the state that they leave.
func newInbox(t *testing.T, configure ...func(*inbox.Options)) *fixture {
	t.Helper()
	db := pgtest.New(t, pgtest.Reused)
	o := inbox.Options{
		Schema:      db.Schema,
		DedupWindow: 7 * day,
		Retry:       workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour},
		Telemetry:   workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)},
	}
	for _, change := range configure {
		change(&o)
	}
	box, err := inbox.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, DB: db, box: box, table: box.Table().Name()}
	up, _, err := box.DDL()
	if err != nil {
		t.Fatal(err)
	}
	f.Define(t, up+"; CREATE TABLE effects (id text)")
	return f
}

// separatePool returns a pool as another process has it, which shares no connection with the fixture's.
func (f *fixture) separatePool() *pgxpool.Pool {
	f.Helper()
	pool, err := pgxpool.New(f.Context(), f.URL)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return pool
}

func (f *fixture) exec(query string, args ...any) {
	f.Helper()
	if _, err := f.Pool.Exec(f.Context(), query, args...); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) count(query string, args ...any) (n int) {
	f.Helper()
	if err := f.Pool.QueryRow(f.Context(), query, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func (f *fixture) rows() int { f.Helper(); return f.count("SELECT count(*) FROM " + f.table) }

// effects returns how often a message has had its effect.
func (f *fixture) effects(id string) int {
	f.Helper()
	return f.count("SELECT count(*) FROM effects WHERE id = $1", id)
}

// effect returns a function for Process that writes the message's effect.
func effect(id string) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", id)
		return err
	}
}

// delivered is a worker's handler that writes the message's effect.
func delivered(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
	return effect(m.MessageID)(ctx, tx)
}

func key(id string) inbox.Key { return inbox.Key{Consumer: "billing", Source: "shop", MessageID: id} }

func message(id, payload string) inbox.Message {
	return inbox.Message{Consumer: "billing", Source: "shop", MessageID: id, Payload: []byte(payload)}
}

func hash(body string) []byte {
	sum := sha256.Sum256([]byte(body))
	return sum[:]
}

// process processes a message with its effect, on the fixture's pool.
func (f *fixture) process(k inbox.Key) inbox.Result {
	f.Helper()
	result, err := f.box.Process(f.Context(), f.Pool, k, effect(k.MessageID))
	if err != nil {
		f.Fatal(err)
	}
	return result
}

// receive stores messages in a transaction of their own.
func (f *fixture) receive(msgs ...inbox.Message) (results []inbox.Result) {
	f.Helper()
	f.inTx(func(tx workqueue.Tx) (err error) {
		results, err = f.box.ReceiveMany(f.Context(), tx, msgs...)
		return err
	})
	return results
}

// inTx runs do in a transaction of its own.
func (f *fixture) inTx(do func(workqueue.Tx) error) {
	f.Helper()
	err := pgx.BeginFunc(f.Context(), f.Pool, func(tx pgx.Tx) error { return do(workqueue.Pgx(tx)) })
	if err != nil {
		f.Fatal(err)
	}
}

// worker runs a worker of the consumer billing until the test ends.
func (f *fixture) worker(o workqueue.WorkerOptions, register func(*inbox.Worker)) *inbox.Worker {
	f.Helper()
	return f.workerOn(f.Pool, inbox.WorkerOptions{Consumer: "billing", WorkerOptions: o}, register)
}

func (f *fixture) workerOn(pool *pgxpool.Pool, o inbox.WorkerOptions, register func(*inbox.Worker)) *inbox.Worker {
	f.Helper()
	w, err := inbox.NewWorker(pool, f.box, o)
	if err != nil {
		f.Fatal(err)
	}
	register(w)
	ctx, stop := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.Errorf("Run: %v", err)
		}
	})
	return w
}

// row is a message as it is stored.
type row struct {
	Status     workqueue.Status
	Attempts   int
	LastError  string
	Hash       []byte
	Topic      *string
	Payload    []byte
	HasPayload bool
	Headers    map[string]string
	Due        time.Time
}

func (f *fixture) row(id uuid.UUID) row {
	f.Helper()
	var r row
	err := f.Pool.QueryRow(f.Context(),
		`SELECT status, attempts, coalesce(last_error, ''), body_hash, topic, payload, payload IS NOT NULL, headers, due_at
		FROM `+f.table+` WHERE id = $1`, id).Scan(&r.Status, &r.Attempts, &r.LastError, &r.Hash, &r.Topic, &r.Payload, &r.HasPayload, &r.Headers, &r.Due)
	if err != nil {
		f.Fatalf("row %s: %v", id, err)
	}
	r.Headers = sdktest.Untraced(r.Headers)
	return r
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

// age moves the end of all rows that have ended into the past.
func (f *fixture) age(d time.Duration) {
	f.Helper()
	f.exec("UPDATE "+f.table+" SET completed_at = completed_at - $1::interval, failed_at = failed_at - $1::interval", d)
}

// receive waits for a value from another goroutine.
func receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("nothing received within %v", patience)
	}
	return v
}
