package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/workqueue"
)

// recorder records which handler got which message.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) handler(name string) inbox.Handler {
	return func(_ context.Context, _ pgx.Tx, m *inbox.Delivery) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, name+" got "+m.MessageID)
		return nil
	}
}

func (r *recorder) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.seen))
}

func topic(id, topic string) inbox.Message { m := message(id, ""); m.Topic = topic; return m }

func TestMessagesGoToTheHandlerOfTheirTopic(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	var rec recorder
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.Handle("a", rec.handler("A"))
		w.Handle("shop", rec.handler("the source"))
		w.HandleAll(rec.handler("the rest"))
	})
	for _, r := range f.receive(topic("1", "a"), topic("2", ""), topic("3", "A"), topic("4", "a.b")) {
		if got := f.settled(r.ID); got.Status != workqueue.Done || got.Attempts != 1 {
			t.Errorf("%s is %v after %d attempts", *got.Topic, got.Status, got.Attempts)
		}
	}
	want := []string{"A got 1", "the rest got 3", "the rest got 4", "the source got 2"}
	if got := rec.sorted(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAWorkerLeavesOtherConsumersAlone(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) { w.HandleAll(delivered) })
	other := message("other", "")
	other.Consumer = "shipping"
	stored := f.receive(other, message("mine", ""))
	f.settled(stored[1].ID)
	if got := f.row(stored[0].ID); got.Status != workqueue.Ready || got.Attempts != 0 {
		t.Errorf("another consumer's message is %+v", got)
	}
	shipping := inbox.WorkerOptions{Consumer: "shipping"}
	f.workerOn(f.Pool, shipping, func(w *inbox.Worker) { w.HandleAll(delivered) })
	if got := f.settled(stored[0].ID); got.Status != workqueue.Done {
		t.Errorf("its own worker leaves it %v", got.Status)
	}
}

func TestADelivery(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	got := make(chan inbox.Delivery, 1)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(func(_ context.Context, _ pgx.Tx, m *inbox.Delivery) error { got <- *m; return nil })
	})
	m := message("1", "a\x00b")
	m.Topic, m.Headers, m.MaxAttempts = "order.placed", map[string]string{"a": "b"}, 3
	stored := f.receive(m)[0]
	d := receive(t, got)
	headers := sdktest.Untraced(d.Headers)
	d.Headers = nil
	want := d // with its unexported fields and its times
	want.ID, want.Consumer, want.Source, want.MessageID = stored.ID, "billing", "shop", "1"
	want.Topic, want.Payload, want.Attempt, want.MaxAttempts = "order.placed", []byte("a\x00b"), 1, 3
	if fmt.Sprint(d) != fmt.Sprint(want) || !maps.Equal(headers, m.Headers) || d.ReceivedAt.IsZero() ||
		d.DueAt.IsZero() {
		t.Errorf("got %+v %v\nwant %+v", d, headers, want)
	}
}

// Programs in other languages may leave out columns that the library fills in.
func TestARowWithoutTopicAndPayload(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	got := make(chan string, 1)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.Handle("shop", func(_ context.Context, _ pgx.Tx, m *inbox.Delivery) error {
			got <- fmt.Sprint(m.Topic, m.Payload != nil)
			return nil
		})
	})
	f.exec("INSERT INTO " + f.table + " (consumer, source, message_id) VALUES ('billing', 'shop', '1')")
	if s := receive(t, got); s != "shoptrue" {
		t.Errorf("got %s", s)
	}
}

func TestUnregisteredTopicIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) { w.Handle("known", delivered) })
	last := topic("2", "unknown")
	last.MaxAttempts = 1
	stored := f.receive(topic("1", "unknown"), last)
	for i, want := range []workqueue.Status{workqueue.Ready, workqueue.Failed} {
		got := f.settled(stored[i].ID)
		if got.Status != want || got.Attempts != 1 || got.LastError != `no handler is registered for topic "unknown"` {
			t.Errorf("message %d is %v after %d attempts with error %q, want %v", i, got.Status, got.Attempts,
				got.LastError, want)
		}
	}
}

// Each outcome decides how the message ends, and whether the handler's writes are kept.
func TestOutcomesAndWrites(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	broken := errors.New("broken")
	cases := map[string]struct {
		result  error
		status  workqueue.Status
		effects int
		says    string
	}{
		"nil":       {nil, workqueue.Done, 1, ""},
		"error":     {broken, workqueue.Ready, 0, "broken"},
		"permanent": {workqueue.Permanent(broken), workqueue.Failed, 1, "broken"},
		"retry":     {workqueue.RetryAfter(time.Hour, broken), workqueue.Ready, 1, "broken"},
		"snooze":    {workqueue.Snooze(time.Hour), workqueue.Ready, 1, ""},
		"cancelled": {workqueue.Cancelled("no need"), workqueue.Failed, 1, "no need"},
		"panic":     {nil, workqueue.Ready, 0, "panic: at the disco"},
		"swallowed": {nil, workqueue.Ready, 0, "its error was not returned"},
		"commit":    {nil, workqueue.Ready, 0, "commits the transaction"},
	}
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
			if err := delivered(ctx, tx, m); err != nil {
				return err
			}
			switch m.MessageID {
			case "panic":
				panic("at the disco")
			case "swallowed":
				_, _ = tx.Exec(ctx, "SELECT 1/0")
			case "commit":
				return tx.Commit(ctx)
			}
			return cases[m.MessageID].result
		})
	})
	for name, c := range cases {
		got := f.settled(f.receive(message(name, ""))[0].ID)
		if got.Status != c.status || !strings.Contains(got.LastError, c.says) {
			t.Errorf("%s: %v with error %q, want %v with %q", name, got.Status, got.LastError, c.status, c.says)
		}
		if n := f.effects(name); n != c.effects {
			t.Errorf("%s: %d effects, want %d", name, n, c.effects)
		}
	}
}

func TestALostLeaseTakesTheWritesWithIt(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) {
		o.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: time.Millisecond, Cap: time.Millisecond}
	})
	lost := make(chan error, 1)
	f.worker(workqueue.WorkerOptions{Concurrency: 1}, func(w *inbox.Worker) {
		w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
			if err := delivered(ctx, tx, m); err != nil {
				return err
			}
			if m.Attempt == 1 {
				f.reap(m.ID)
				lost <- nil
			}
			return nil
		})
	})
	id := f.receive(message("1", ""))[0].ID
	receive(t, lost)
	f.until("the message is done", func() bool { return f.row(id).Status == workqueue.Done })
	if n := f.effects("1"); n != 1 || f.row(id).Attempts != 2 {
		t.Errorf("%d effects after %d attempts, want the one of the second", n, f.row(id).Attempts)
	}
}

// reap expires a message's lease and requeues it, as if its worker had frozen. It does both in one transaction, because
// a renewal in between would extend the lease.
func (f *fixture) reap(id uuid.UUID) {
	var reaped workqueue.Reaped
	err := workqueue.InTx(context.Background(), f.Pool, func(tx workqueue.Tx) error {
		_, err := tx.Exec(context.Background(), "UPDATE "+f.table+
			" SET locked_until = now() - interval '1 second' WHERE id = $1", id)
		if err != nil {
			return err
		}
		reaped, err = f.box.Table().In(tx).ReapExpired(context.Background(), 10)
		return err
	})
	if err != nil || reaped.Requeued != 1 {
		f.Errorf("reaped %+v, %v", reaped, err)
	}
}

func TestDuplicatesWhileAWorkerProcesses(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	running, finish := make(chan bool), make(chan bool)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
			running <- true
			<-finish
			return delivered(ctx, tx, m)
		})
	})
	id := f.receive(message("1", "a"))[0].ID
	receive(t, running)
	if got := f.process(key("1")); got != (inbox.Result{Answer: inbox.InProgress, ID: id,
		Status: workqueue.InProgress}) {
		t.Errorf("Process says %+v", got)
	}
	want := []inbox.Result{
		{Answer: inbox.Duplicate, ID: id, Status: workqueue.InProgress},
		{Answer: inbox.HashMismatch, ID: id, Status: workqueue.InProgress},
	}
	if got := f.receive(message("1", "a"), message("1", "b")); !slices.Equal(got, want) {
		t.Errorf("Receive says %+v", got)
	}
	close(finish)
	if got := f.settled(id); got.Status != workqueue.Done || got.Attempts != 1 || f.effects("1") != 1 {
		t.Errorf("the message is %+v, with %d effects", got, f.effects("1"))
	}
	if got := f.process(key("1")); got.Answer != inbox.Duplicate {
		t.Errorf("afterwards Process says %+v", got)
	}
}

func TestADeadLetterKeepsItsKeyAndCanBeRedriven(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	var fail sync.Once
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) (err error) {
			fail.Do(func() { err = errors.New("broken") })
			return errors.Join(err, delivered(ctx, tx, m))
		})
	})
	m := message("1", "a")
	m.MaxAttempts = 1
	id := f.receive(m)[0].ID
	if got := f.settled(id); got.Status != workqueue.Failed || string(got.Payload) != "a" {
		t.Fatalf("the message is %+v", got)
	}
	want := inbox.Result{Answer: inbox.Duplicate, ID: id, Status: workqueue.Failed}
	if a, b := f.process(key("1")), f.receive(m)[0]; a != want || b != want {
		t.Errorf("got %+v and %+v, want %+v", a, b, want)
	}
	if _, err := f.box.Table().On(f.Pool).Redrive(t.Context(), []uuid.UUID{id}, "me"); err != nil {
		t.Fatal(err)
	}
	f.until("the message is done", func() bool { return f.row(id).Status == workqueue.Done })
	if n := f.effects("1"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestAWorkerThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	missing, err := inbox.Open(inbox.Options{Schema: f.Schema + "_x", DedupWindow: day})
	if err != nil {
		t.Fatal(err)
	}
	billing := inbox.WorkerOptions{Consumer: "billing"}
	lease := billing
	lease.Lease = time.Millisecond
	for want, c := range map[string]struct {
		pool    *pgxpool.Pool
		box     *inbox.Inbox
		options inbox.WorkerOptions
	}{
		"pool is nil":       {nil, f.box, billing},
		"inbox is nil":      {f.Pool, nil, billing},
		"consumer is empty": {f.Pool, f.box, inbox.WorkerOptions{}},
		"lease is 1ms":      {f.Pool, f.box, lease},
	} {
		if w, err := inbox.NewWorker(c.pool, c.box, c.options); w != nil || !errors.Is(err, workqueue.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", w, err, want)
		}
	}

	w, err := inbox.NewWorker(f.Pool, missing, billing)
	if err != nil {
		t.Fatal(err)
	}
	w.Wake() // must do no harm before Run
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has no handler") {
		t.Errorf("no handler: %v", err)
	}
	w.HandleAll(delivered)
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no table: %v", err)
	}
}

func TestHandlePanicsOnMistakes(t *testing.T) {
	t.Parallel()
	for want, register := range map[string]func(*inbox.Worker){
		`inbox: topic "a" has a handler already`: func(w *inbox.Worker) {
			w.Handle("a", delivered)
			w.Handle("a", delivered)
		},
		"topic has 256 bytes, the limit is 255": func(w *inbox.Worker) {
			w.Handle(strings.Repeat("a", 256), delivered)
		},
		`the handler of "a" is nil`: func(w *inbox.Worker) { w.Handle("a", nil) },
		"register handlers before Run": func(w *inbox.Worker) {
			w.HandleAll(delivered)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = w.Run(ctx)
			w.Handle("a", delivered)
		},
	} {
		f := newInbox(t)
		w, err := inbox.NewWorker(f.Pool, f.box, inbox.WorkerOptions{Consumer: "billing"})
		if err != nil {
			t.Fatal(err)
		}
		if got := panics(func() { register(w) }); !strings.Contains(got, want) {
			t.Errorf("panics with %q, want %q", got, want)
		}
	}
}

func panics(f func()) (value string) {
	defer func() { value = fmt.Sprint(recover()) }()
	f()
	return ""
}
