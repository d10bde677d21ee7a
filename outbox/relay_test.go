package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/migrations"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// recorder records which handler got which topic.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) handler(name string) outbox.Handler {
	return func(_ context.Context, m *outbox.Delivery) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, name+" got "+m.Topic)
		return nil
	}
}

func (r *recorder) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.seen))
}

func TestMessagesGoToTheHandlerOfTheirTopic(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	var rec recorder
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("a", rec.handler("A"))
		r.Handle("b", rec.handler("B"))
		r.HandleAll(rec.handler("the rest"))
	})
	ids := f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "b"}, outbox.Message{Topic: "A"},
		outbox.Message{Topic: "a.b"})
	for _, id := range ids {
		if got := f.settled(id); got.Status != workqueue.Done || got.Attempts != 1 {
			t.Errorf("%s is %v after %d attempts", got.Topic, got.Status, got.Attempts)
		}
	}
	want := []string{"A got a", "B got b", "the rest got A", "the rest got a.b"}
	if got := rec.sorted(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUnregisteredTopicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("known", func(context.Context, *outbox.Delivery) error { return nil })
	})
	ids := f.enqueue(outbox.Message{Topic: "unknown"}, outbox.Message{Topic: "unknown", MaxAttempts: 1})
	for i, want := range []workqueue.Status{workqueue.Ready, workqueue.Failed} {
		got := f.settled(ids[i])
		if got.Status != want || got.Attempts != 1 || got.LastError != `no handler is registered for topic "unknown"` {
			t.Errorf("message %d is %v after %d attempts with error %q, want %v", i, got.Status, got.Attempts,
				got.LastError, want)
		}
	}
}

func TestMessagesAreNotDeliveredBeforeTheyAreDue(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	early := make(chan time.Duration, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			var now time.Time
			if err := f.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
				return err
			}
			early <- m.DueAt.Sub(now)
			return nil
		})
	})
	var at time.Time
	if err := f.Pool.QueryRow(t.Context(),
		"SELECT clock_timestamp() + interval '300 milliseconds'").Scan(&at); err != nil {
		t.Fatal(err)
	}
	id := f.enqueue(outbox.Message{Topic: "later", ScheduledAt: at})[0]
	if got := f.row(id).DueIn; got <= 0 {
		t.Fatalf("due %v after it was enqueued", got)
	}
	if d := receive(t, early); d > 0 {
		t.Errorf("delivered %v early", d)
	}
}

func TestRelaysShareAnOutbox(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.exec("CREATE TABLE " + f.Schema + ".effects (id uuid)")
	for range 3 {
		f.relay(workqueue.WorkerOptions{Concurrency: 4}, func(r *outbox.Relay) {
			r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
				return m.Tx(ctx, func(tx pgx.Tx) error { return f.effect(ctx, tx, m) })
			})
		})
	}
	f.enqueue(numbered(500)...)
	f.until("everything is delivered", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 2") == 500
	})
	if n := f.count("SELECT count(DISTINCT id) * 1000 + count(*) FROM " + f.Schema + ".effects"); n != 500*1000+500 {
		t.Errorf("%d messages had %d effects, want one each of 500", n/1000, n%1000)
	}
}

// effect writes the message's id to the table of effects, in a handler's transaction.
func (f *fixture) effect(ctx context.Context, tx pgx.Tx, m *outbox.Delivery) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+f.Schema+".effects VALUES ($1)", m.ID)
	return err
}

func TestRelayWorksOnTheMigratedTable(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	_, down, err := f.box.DDL()
	if err != nil {
		t.Fatal(err)
	}
	f.exec(down)
	m, err := migrations.New(f.Pool, migrations.Options{Schema: f.Schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.expectDelivery(f.known(outbox.Message{Topic: "a", Key: "k", Payload: []byte("p"), MaxAttempts: 2, DedupKey: "d"}))
}

// known enqueues a message and returns it with its id.
func (f *fixture) known(m outbox.Message) outbox.Message {
	f.Helper()
	m.ID = f.enqueue(m)[0]
	return m
}

func TestPollingRelayIsWoken(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	got := make(chan string, 1)
	r := f.relay(workqueue.WorkerOptions{NoListen: true, PollInterval: time.Hour}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got <- m.Topic; return nil })
	})
	f.enqueue(outbox.Message{Topic: "a"})
	f.until("the relay has started", func() bool { r.Wake(); return len(got) > 0 })
	receive(t, got)
	f.enqueue(outbox.Message{Topic: "b"})
	r.Wake()
	receive(t, got)
}

func TestPooledHandlersCannotStarveTheRelay(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	config := f.Pool.Config()
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.Pool = pool
	f.exec("CREATE TABLE " + f.Schema + ".effects (id uuid)")
	f.relay(workqueue.WorkerOptions{Concurrency: 8}, func(r *outbox.Relay) {
		r.HandleAll(func(ctx context.Context, m *outbox.Delivery) error {
			return m.Tx(ctx, func(tx pgx.Tx) error { return f.effect(ctx, tx, m) })
		})
	})
	f.enqueue(numbered(40)...)
	f.until("everything is delivered", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+
			" WHERE status = 2") == 40
	})
}

func TestARelayThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	missing, err := outbox.Open(outbox.Options{Schema: f.Schema + "_x"})
	if err != nil {
		t.Fatal(err)
	}
	lease := outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{Lease: time.Millisecond}}
	for name, c := range map[string]struct {
		pool    *pgxpool.Pool
		box     *outbox.Outbox
		options outbox.RelayOptions
		want    string
	}{
		"no pool":     {nil, f.box, outbox.RelayOptions{}, "pool is nil"},
		"no outbox":   {f.Pool, nil, outbox.RelayOptions{}, "outbox is nil"},
		"bad options": {f.Pool, f.box, lease, "lease is 1ms"},
	} {
		if r, err := outbox.NewRelay(c.pool, c.box, c.options); r != nil || !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", name, r, err, c.want)
		}
	}

	r, err := outbox.NewRelay(f.Pool, missing, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Wake() // must do no harm before Run
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has no handler") {
		t.Errorf("no handler: %v", err)
	}
	r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no table: %v", err)
	}
}

func TestARelayRunsOnce(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("first Run: %v", err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "started already") {
		t.Errorf("second Run: %v", err)
	}
	if got := panics(func() {
		r.Handle("a", func(context.Context,
			*outbox.Delivery) error {
			return nil
		})
	}); !strings.Contains(got, "before Run") {
		t.Errorf("Handle after Run panics with %q", got)
	}
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	ok := func(context.Context, *outbox.Delivery) error { return nil }
	for name, c := range map[string]struct {
		register func(*outbox.Relay)
		want     string
	}{
		"topic twice": {func(r *outbox.Relay) { r.Handle("a", ok); r.Handle("a", ok) },
			`topic "a" has a handler already`},
		"catch-all twice": {func(r *outbox.Relay) { r.HandleAll(ok); r.HandleAll(ok) }, "every other topic already"},
		"no topic":        {func(r *outbox.Relay) { r.Handle("", ok) }, "topic is empty"},
		"long topic":      {func(r *outbox.Relay) { r.Handle(strings.Repeat("a", 256), ok) }, "the limit is 255"},
		"no handler":      {func(r *outbox.Relay) { r.Handle("a", nil) }, `the handler of "a" is nil`},
		"no catch-all":    {func(r *outbox.Relay) { r.HandleAll(nil) }, "is nil"},
	} {
		r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := panics(func() { c.register(r) }); !strings.Contains(got, c.want) {
			t.Errorf("%s: panics with %q, want %q", name, got, c.want)
		}
	}
}

func panics(f func()) (value string) {
	defer func() { value = fmt.Sprint(recover()) }()
	f()
	return ""
}
