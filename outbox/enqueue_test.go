package outbox_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/sdktest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func TestMessagesExistIfTheirTransactionCommits(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		for _, n := range []int{1, 3} {
			for _, commit := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/commit=%v", w.Name, n, commit), func(t *testing.T) {
					t.Parallel()
					f := newOutbox(t)
					tx, end := w.Begin(f, f.DB)
					enqueued, err := f.box.EnqueueMany(t.Context(), tx, numbered(n)...)
					if err != nil {
						t.Fatal(err)
					}
					if f.messages() != 0 {
						t.Error("messages are visible before the commit")
					}
					end(commit)
					f.expectStored(workqueue.IDs(enqueued), n, commit)
				})
			}
		}
	}
}

// numbered are messages whose payload is their index.
func numbered(n int) []outbox.Message {
	msgs := make([]outbox.Message, n)
	for i := range msgs {
		msgs[i] = outbox.Message{Topic: "numbers", Payload: fmt.Append(nil, i)}
	}
	return msgs
}

func (f *fixture) expectStored(ids []uuid.UUID, n int, commit bool) {
	f.Helper()
	if len(ids) != n {
		f.Fatalf("got %d ids for %d messages", len(ids), n)
	}
	if !commit {
		n = 0
	}
	if got := f.messages(); got != n {
		f.Fatalf("the table has %d messages, want %d", got, n)
	}
	for i, id := range ids[:n] {
		if got := f.row(id); string(got.Payload) != fmt.Sprint(i) {
			f.Errorf("id %d is of the message %s", i, got.Payload)
		}
	}
}

func TestEveryFieldTravels(t *testing.T) {
	t.Parallel()
	full := outbox.Message{
		ID:          uuid.New(),
		Topic:       "orders/größe",
		Key:         `k"1\`,
		Payload:     []byte{0, 1, 0xff, '"', '\\', '{'},
		Headers:     map[string]string{"content-type": "application/json", "quote": `"'\`},
		MaxAttempts: 3,
		DedupKey:    "once",
	}
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			tx, end := w.Begin(f, f.DB)
			enqueued, err := f.box.Enqueue(t.Context(), tx, full)
			if err != nil {
				t.Fatal(err)
			}
			end(true)
			if want := (workqueue.Enqueued{ID: full.ID}); enqueued != want {
				t.Errorf("got %v, want the message's own id: %v", enqueued, want)
			}
			f.expectDelivery(full)
		})
	}
}

func (f *fixture) expectDelivery(want outbox.Message) {
	f.Helper()
	got := make(chan *outbox.Delivery, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { got <- m; return nil })
	})
	m := receive(f, got)
	switch {
	case m.ID != want.ID, m.Topic != want.Topic, m.Key != want.Key, string(m.Payload) != string(want.Payload):
		f.Errorf("got %+v, want %+v", m, want)
	case !maps.Equal(sdktest.Untraced(m.Headers), want.Headers), m.DedupKey != want.DedupKey,
		m.MaxAttempts != want.MaxAttempts, m.Attempt != 1:
		f.Errorf("got %+v, want %+v", m, want)
	case m.CreatedAt.IsZero(), !m.DueAt.Equal(m.CreatedAt):
		f.Errorf("created %v, due %v", m.CreatedAt, m.DueAt)
	}
}

func TestZeroValuesAreUsable(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	got := f.row(f.enqueue(outbox.Message{Topic: "bare"})[0])
	switch {
	case got.Payload == nil || len(got.Payload) > 0:
		t.Errorf("payload is %v, want an empty one", got.Payload)
	case got.Key != nil, got.DedupKey != nil, sdktest.Untraced(got.Headers) != nil:
		t.Errorf("key %v, dedup key %v, headers %v: want none", got.Key, got.DedupKey, got.Headers)
	case got.Max != outbox.DefaultMaxAttempts, got.DueIn != 0:
		t.Errorf("max attempts %d, due in %v", got.Max, got.DueIn)
	}
}

func TestOptionsGiveTheDefaultOfMaxAttempts(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.MaxAttempts = 4 })
	ids := f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "a", MaxAttempts: 2})
	if a, b := f.row(ids[0]).Max, f.row(ids[1]).Max; a != 4 || b != 2 {
		t.Errorf("max attempts are %d and %d, want 4 and 2", a, b)
	}
}

func TestNoMessagesAreNoError(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	if ids := f.enqueue(); len(ids) != 0 {
		t.Errorf("got ids %v", ids)
	}
}

func TestPastMeansNow(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	ids := f.enqueue(outbox.Message{Topic: "late", ScheduledAt: time.Now().Add(-24 * time.Hour)})
	if got := f.row(ids[0]).DueIn; got != 0 {
		t.Errorf("due %v after it was created, want at once", got)
	}
}

// statements counts the statements that an outbox inserts with.
func statements(n *int) func(*outbox.Options) {
	return func(o *outbox.Options) {
		o.Telemetry.Observer = func(_ context.Context, e workqueue.Event) {
			if e.Operation == "enqueue" {
				*n++
			}
		}
	}
}

func TestManyMessagesAreOneTransaction(t *testing.T) {
	t.Parallel()
	large := slices.Repeat([]outbox.Message{{Topic: "large", Payload: make([]byte, 1<<20)}}, 20)
	for name, c := range map[string]struct {
		msgs []outbox.Message
		want int // statements
	}{
		"more than fit one statement":   {numbered(workqueue.MaxBatch + 5), 2},
		"larger than fit one statement": {large, 2},
	} {
		for _, commit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/commit=%v", name, commit), func(t *testing.T) {
				t.Parallel()
				sent := 0
				f := newOutbox(t, statements(&sent))
				tx, end := apptx.Pgx(f, f.DB)
				enqueued, err := f.box.EnqueueMany(t.Context(), tx, c.msgs...)
				if err != nil {
					t.Fatal(err)
				}
				end(commit)
				if sent != c.want {
					t.Errorf("%d statements, want %d", sent, c.want)
				}
				f.expectInOrder(workqueue.IDs(enqueued), c.msgs, commit)
			})
		}
	}
}

func (f *fixture) expectInOrder(ids []uuid.UUID, msgs []outbox.Message, commit bool) {
	f.Helper()
	if !commit {
		if n := f.messages(); n != 0 {
			f.Errorf("%d messages of a transaction that was rolled back", n)
		}
		return
	}
	payloads := make([][]byte, len(msgs))
	for i, m := range msgs {
		payloads[i] = m.Payload
	}
	same := f.count(`SELECT count(*) FROM unnest($1::uuid[], $2::bytea[]) AS want (id, payload)
		JOIN `+f.table+` AS t ON t.id = want.id AND t.payload = want.payload`, ids, payloads)
	if same != len(msgs) || f.messages() != len(msgs) {
		f.Errorf("%d of %d ids are those of their messages, the table has %d", same, len(msgs), f.messages())
	}
}

func TestDefaultOutboxIsInSchemaTxwork(t *testing.T) {
	t.Parallel()
	f := newOutbox(t) // its schema is another
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	up, _, err := outbox.Spec("").DDL()
	if err != nil {
		t.Fatal(err)
	}
	// The schema exists inside this transaction only: other tests may want it, too.
	if _, err := tx.Exec(t.Context(), "CREATE SCHEMA txwork; "+up, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	box, err := outbox.Open(outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Enqueue(t.Context(), workqueue.Pgx(tx), outbox.Message{Topic: "default"}); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM txwork.outbox").Scan(&n); err != nil || n != 1 {
		t.Errorf("txwork.outbox has %d messages, want 1 (%v)", n, err)
	}
}
