package outbox_test

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

func once(topic, payload string) outbox.Message {
	return outbox.Message{Topic: topic, Payload: []byte(payload), DedupKey: "once"}
}

func TestDuplicatesGetTheIDOfTheMessageThatIsThere(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			first := f.enqueue(once("a", "first"))[0]

			tx, end := w.Begin(f, f.DB)
			got, err := f.box.EnqueueMany(t.Context(), tx,
				once("a", "across transactions"),
				outbox.Message{Topic: "a"},
				once("b", "another topic"),
				once("b", "in one call"),
			)
			if err != nil {
				t.Fatal(err)
			}
			again, err := f.box.Enqueue(t.Context(), tx, once("b", "in one transaction"))
			if err != nil {
				t.Fatal(err)
			}
			end(true)

			ids := workqueue.IDs(got)
			want := []workqueue.Enqueued{{ID: first, Duplicate: true}, {ID: ids[1]}, {ID: ids[2]},
				{ID: ids[2], Duplicate: true}}
			if !slices.Equal(got, want) || again != want[3] || ids[1] == first || ids[2] == first {
				t.Errorf("got %v and %v, want %v", got, again, want)
			}
			if n := f.messages(); n != 3 {
				t.Errorf("the table has %d messages, want 3", n)
			}
			if a, b := f.row(first), f.row(ids[2]); string(a.Payload) != "first" ||
				string(b.Payload) != "another topic" {
				t.Errorf("payloads are %q and %q: a duplicate changed one", a.Payload, b.Payload)
			}
		})
	}
}

func TestMessagesWithoutDedupKeyAreNoDuplicates(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "a"})
	if n := f.messages(); n != 2 {
		t.Errorf("the table has %d messages, want 2", n)
	}
}

func TestConcurrentDuplicatesAgreeOnOne(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	ids := make([]uuid.UUID, 6)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			tx, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback(t.Context())
			got, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), once("a", "x"))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = got.ID
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.messages(); n != 1 || len(slices.Compact(ids)) != 1 || ids[0] == uuid.Nil {
		t.Errorf("%d messages, ids %v: want one", n, ids)
	}
}

func TestDuplicateOfARolledBackMessageIsWritten(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	tx, end := apptx.Pgx(f, f.DB)
	first, err := f.box.Enqueue(t.Context(), tx, once("a", "first"))
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan []uuid.UUID, 1)
	go func() { second <- f.enqueue(once("a", "second")) }()
	f.until("the second transaction waits for the first", func() bool {
		return pgtest.SomebodyWaits(t, f.Pool, f.table)
	})
	end(false)
	ids := receive(t, second)
	if ids[0] == first.ID || string(f.row(ids[0]).Payload) != "second" {
		t.Errorf("the second message was not written: id %v", ids[0])
	}
}

// deletingTx deletes all messages between its first and second statement, as the ack of a concurrent relay may.
type deletingTx struct {
	*sql.Tx
	f      *fixture
	before int
}

func (d *deletingTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if d.before++; d.before == 2 {
		d.f.exec("DELETE FROM " + d.f.table)
	}
	return d.Tx.QueryContext(ctx, query, args...)
}

func TestDuplicateOfAMessageThatGoesMeanwhileIsWritten(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.DeleteDone = true })
	first := f.enqueue(once("a", "first"))[0]
	tx, err := f.SQL(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	enqueued, err := f.box.EnqueueMany(t.Context(), workqueue.SQL(&deletingTx{Tx: tx, f: f}), once("a", "second"),
		once("a", "third"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	ids := workqueue.IDs(enqueued)
	if ids[0] == first || ids[0] == uuid.Nil || ids[1] != ids[0] || string(f.row(ids[0]).Payload) != "second" {
		t.Errorf("got ids %v, want those of the second message (the first was %v)", ids, first)
	}
}
