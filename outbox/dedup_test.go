package outbox_test

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// eachStorage runs a test for rows and for a log, which make the same promises.
func eachStorage(t *testing.T, test func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture)) {
	t.Parallel()
	for name, storage := range map[string]func(*testing.T, ...func(*outbox.Options)) *fixture{
		"Rows": newOutbox, "Log": newLog,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, storage)
		})
	}
}

func (f *fixture) payload(id uuid.UUID) string {
	f.Helper()
	var payload []byte
	err := f.Pool.QueryRow(f.Context(), "SELECT payload FROM "+f.table+" WHERE id = $1", id).Scan(&payload)
	if err != nil {
		f.Fatal(err)
	}
	return string(payload)
}

func once(topic, payload string) outbox.Message {
	return outbox.Message{Topic: topic, Payload: []byte(payload), DedupKey: "once"}
}

func TestDuplicatesGetTheIDOfTheMessageThatIsThere(t *testing.T) {
	eachStorage(t, func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture) {
		for _, w := range apptx.Libraries() {
			t.Run(w.Name, func(t *testing.T) {
				t.Parallel()
				f := storage(t)
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
				if a, b := f.payload(first), f.payload(ids[2]); a != "first" || b != "another topic" {
					t.Errorf("payloads are %q and %q: a duplicate changed one", a, b)
				}
			})
		}
	})
}

func TestMessagesWithoutDedupKeyAreNoDuplicates(t *testing.T) {
	eachStorage(t, func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture) {
		f := storage(t)
		f.enqueue(outbox.Message{Topic: "a"}, outbox.Message{Topic: "a"})
		if n := f.messages(); n != 2 {
			t.Errorf("the table has %d messages, want 2", n)
		}
	})
}

func TestConcurrentDuplicatesAgreeOnOne(t *testing.T) {
	eachStorage(t, func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture) {
		f := storage(t)
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
	})
}

func TestDuplicateOfARolledBackMessageIsWritten(t *testing.T) {
	eachStorage(t, func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture) {
		f := storage(t)
		tx, end := apptx.Pgx(f, f.DB)
		first, err := f.box.Enqueue(t.Context(), tx, once("a", "first"))
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan []uuid.UUID, 1)
		go func() { second <- f.enqueue(once("a", "second")) }()
		f.until("the second transaction waits for the first", func() bool {
			return pgtest.SomebodyWaits(t, f.Pool, f.dedupTable())
		})
		end(false)
		ids := receive(t, second)
		if ids[0] == first.ID || f.payload(ids[0]) != "second" {
			t.Errorf("the second message was not written: id %v", ids[0])
		}
	})
}

// dedupTable is the table that has the dedup keys.
func (f *fixture) dedupTable() string {
	if strings.HasSuffix(f.table, "_log") {
		return f.table + "_dedup"
	}
	return f.table
}

// deletingTx frees all dedup keys between its first and second statement, as the ack of a concurrent relay may, or a
// trim.
type deletingTx struct {
	*sql.Tx
	f      *fixture
	before int
}

func (d *deletingTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if d.before++; d.before == 2 {
		d.f.exec("DELETE FROM " + d.f.dedupTable())
	}
	return d.Tx.QueryContext(ctx, query, args...)
}

func TestDuplicateOfAMessageThatGoesMeanwhileIsWritten(t *testing.T) {
	eachStorage(t, func(t *testing.T, storage func(*testing.T, ...func(*outbox.Options)) *fixture) {
		f := storage(t, func(o *outbox.Options) { o.DeleteDone = o.Storage == outbox.Rows })
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
		if ids[0] == first || ids[0] == uuid.Nil || ids[1] != ids[0] || f.payload(ids[0]) != "second" {
			t.Errorf("got ids %v, want those of the second message (the first was %v)", ids, first)
		}
	})
}
