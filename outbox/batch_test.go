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

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// batches records what the calls of a handler got.
type batches struct {
	mu    sync.Mutex
	calls [][]outbox.Delivery
}

func (b *batches) note(batch []*outbox.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var call []outbox.Delivery
	for _, m := range batch {
		call = append(call, *m)
	}
	b.calls = append(b.calls, call)
}

func messages(topic string, n int) []outbox.Message {
	msgs := make([]outbox.Message, n)
	for i := range msgs {
		msgs[i] = outbox.Message{Topic: topic, Payload: fmt.Append(nil, topic, i)}
	}
	return msgs
}

// Messages of a topic with a batch handler are delivered together, the others one by one.
func TestMessagesAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	var together batches
	f.enqueue(append(messages("bulk", 6), messages("single", 3)...)...)
	alone := make(chan string, 3)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleBatch("bulk", workqueue.BatchOptions{Limit: 3, Linger: time.Hour},
			func(_ context.Context, b []*outbox.Delivery) ([]error, error) {
				together.note(b)
				each := make([]error, len(b))
				each[1] = workqueue.Permanent(errors.New("no such address"))
				for _, m := range b {
					m.Payload, m.Topic = nil, "" // a handler may
				}
				return each, nil
			})
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { alone <- m.Topic; return nil })
	})
	for range 3 {
		if topic := receive(t, alone); topic != "single" {
			t.Errorf("%q is delivered alone", topic)
		}
	}
	f.until("the batches", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status IN (2, 3)") == 9
	})
	if n := f.count("SELECT count(*) FROM " + f.table + " WHERE topic = 'bulk' AND status = 3 AND attempts = 1 AND " +
		"last_error = 'no such address'"); n != 2 || len(together.calls) != 2 {
		t.Errorf("%d are dead letters after %d calls", n, len(together.calls))
	}
	m := together.calls[0][0]
	if m.Topic != "bulk" || !strings.HasPrefix(string(m.Payload), "bulk") ||
		m.Attempt != 1 || m.MaxAttempts == 0 || m.DueAt.IsZero() {
		t.Errorf("delivered %+v", m)
	}
}

// Messages of several topics share the batches of a handler of all.
func TestTopicsShareABatch(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	var together batches
	f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "own"}, outbox.Message{Topic: "b"})
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAllBatch(workqueue.BatchOptions{}, func(_ context.Context, b []*outbox.Delivery) ([]error, error) {
		together.note(b)
		return nil, nil
	})
	r.Handle("own", func(context.Context, *outbox.Delivery) error { return nil })
	f.process(r)
	if len(together.calls) != 1 || len(together.calls[0]) != 2 {
		t.Errorf("called with %v", together.calls)
	}
}

func (f *fixture) process(r *outbox.Relay) {
	f.Helper()
	d, err := r.Drain()
	if err == nil {
		_, err = d.Process(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

// A batch has messages of a key one after the other, and halving and retries keep the order of each key.
func TestBatchesKeepTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) {
		o.Ordering = outbox.PerKey
		o.Retry = workqueue.Retry{Growth: workqueue.Constant}
	})
	const keys, each = 8, 12
	for n := range each {
		var msgs []outbox.Message
		for k := range keys {
			msgs = append(msgs, outbox.Message{Topic: "a", Key: fmt.Sprint(k), Payload: []byte{byte(n)}})
		}
		f.enqueue(msgs...)
	}
	var mu sync.Mutex
	done, failed := map[string]int{}, map[string]bool{}
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleBatch("a", workqueue.BatchOptions{Linger: time.Millisecond}, func(_ context.Context,
			b []*outbox.Delivery) ([]error, error) {
			mu.Lock()
			defer mu.Unlock()
			seen := map[string]int{}
			for _, m := range b {
				if n := int(m.Payload[0]); n != done[m.Key]+seen[m.Key] {
					t.Errorf("key %s: message %d comes after %d and %d of its batch", m.Key, n, done[m.Key], seen[m.Key])
				}
				seen[m.Key]++
			}
			for _, m := range b { // each third message fails its batch, and later itself, once
				if at := fmt.Sprint(m.Key, m.Payload); m.Payload[0]%3 == 1 && !failed[at] {
					if len(b) == 1 {
						failed[at] = true
					}
					return nil, errors.New("once")
				}
			}
			for _, m := range b {
				done[m.Key]++
			}
			return nil, nil
		})
	})
	f.until("all messages", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+" WHERE status = 2") == keys*each
	})
	if n := f.count("SELECT max(attempts) FROM " + f.table); n != 2 {
		t.Errorf("a message took %d attempts", n)
	}
}

// A handler that hangs until its timeout costs only the message that makes it hang an attempt, and other topics go on.
func TestAHungMessageIsFound(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	msgs := messages("hangs", 16)
	msgs[11].Key = "hangs"
	ids := f.enqueue(msgs...)
	f.relay(workqueue.WorkerOptions{HandlerTimeout: 100 * time.Millisecond}, func(r *outbox.Relay) {
		r.HandleBatch("hangs", workqueue.BatchOptions{Limit: 16, Linger: time.Hour}, func(ctx context.Context,
			b []*outbox.Delivery) ([]error, error) {
			if slices.ContainsFunc(b, func(m *outbox.Delivery) bool { return m.Key == "hangs" }) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return nil, nil
		})
	})
	for i, id := range ids {
		want := workqueue.Done
		if i == 11 {
			want = workqueue.Ready
		}
		if got := f.settled(id); got.Status != want || got.Attempts != 1 {
			t.Errorf("message %d is %v after %d attempts: %s", i, got.Status, got.Attempts, got.LastError)
		}
	}
}

// A batch handler that writes through the transactions of its messages settles each with its writes.
func TestMessagesOfABatchHaveTransactions(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.exec("CREATE TABLE effects (id uuid)")
	f.enqueue(messages("a", 5)...)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleBatch("a", workqueue.BatchOptions{}, func(ctx context.Context, b []*outbox.Delivery) ([]error, error) {
		each := make([]error, len(b))
		for i, m := range b {
			each[i] = m.Tx(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", m.ID)
				return err
			})
		}
		return each, nil
	})
	f.process(r)
	if n := f.count("SELECT count(*) FROM effects JOIN " + f.table + " USING (id) WHERE status = 2"); n != 5 {
		t.Errorf("%d effects", n)
	}
}

func TestBatchHandlersAreRefused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := func(context.Context, []*outbox.Delivery) ([]error, error) { return nil, nil }
	one := func(context.Context, *outbox.Delivery) error { return nil }
	none := workqueue.BatchOptions{}
	r.HandleBatch("a", none, h)
	r.HandleAllBatch(none, h)
	for what, register := range map[string]func(){
		"a taken topic":           func() { r.HandleBatch("a", none, h) },
		"a topic that is batched": func() { r.Handle("a", one) },
		"a second of all":         func() { r.HandleAllBatch(none, h) },
		"all one by one":          func() { r.HandleAll(one) },
		"no handler":              func() { r.HandleBatch("b", none, nil) },
		"no handler of all":       func() { r.HandleAllBatch(none, nil) },
		"no topic":                func() { r.HandleBatch("", none, h) },
		"options":                 func() { r.HandleBatch("b", workqueue.BatchOptions{Limit: -1}, h) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: not refused", what)
				}
			}()
			register()
		}()
	}
	if err := r.Check(); err != nil {
		t.Errorf("a relay with batch handlers only is refused: %v", err)
	}
	f.process(r)
	defer func() {
		if recover() == nil {
			t.Error("a handler is registered after the relay has run")
		}
	}()
	r.HandleBatch("late", none, h)
}
