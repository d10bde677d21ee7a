package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// later are the payloads that wait, and those of the log.
func (f *fixture) later() (waiting, logged string) {
	f.Helper()
	err := f.Pool.QueryRow(f.Context(), "SELECT coalesce((SELECT string_agg(convert_from(payload, 'UTF8'), ' ' "+
		"ORDER BY due_at, ord) FROM "+f.table+"_later), ''), coalesce((SELECT string_agg(convert_from(payload, 'UTF8'), "+
		"' ' ORDER BY seq) FROM "+f.table+"), '')").Scan(&waiting, &logged)
	if err != nil {
		f.Fatal(err)
	}
	return waiting, logged
}

// Times are taken in each way in which messages are written, and what is behind a scheduled message of its key waits
// with it if the writers of keys take turns.
func TestALogTakesTimes(t *testing.T) {
	t.Parallel()
	hour := time.Now().Add(time.Hour)
	for _, w := range apptx.Libraries() {
		for _, c := range []struct {
			ordering outbox.Ordering
			waiting  string
			logged   string
		}{
			{outbox.Unordered, "a e i", "b c d f g h j"},
			{outbox.PerKey, "a b e f i j", "c d g h"},
		} {
			t.Run(w.Name+" "+map[outbox.Ordering]string{0: "Unordered", 1: "PerKey"}[c.ordering], func(t *testing.T) {
				t.Parallel()
				f := newLog(t, func(o *outbox.Options) { o.Ordering = c.ordering })
				m := func(payload, key string, at time.Time) outbox.Message {
					return outbox.Message{Topic: "t", Key: key, Payload: []byte(payload), ScheduledAt: at}
				}
				for _, call := range [][]outbox.Message{
					{m("a", "k", hour)}, {m("b", "k", time.Time{})}, {m("c", "l", time.Time{})},
					{m("d", "", time.Now().Add(-time.Hour))},
					{m("e", "m", hour), m("f", "m", time.Time{}), m("g", "n", time.Time{}), m("h", "", time.Time{}),
						m("i", "", hour), m("j", "k", time.Time{})},
				} {
					tx, end := w.Begin(f, f.DB)
					got, err := f.box.EnqueueMany(t.Context(), tx, call...)
					if err != nil || len(got) != len(call) {
						t.Fatalf("%v, %v", got, err)
					}
					end(true)
				}
				if waiting, logged := f.later(); waiting != c.waiting || logged != c.logged {
					t.Errorf("%q wait and %q are in the log, want %q and %q", waiting, logged, c.waiting, c.logged)
				}
			})
		}
	}
}

// A scheduled message is cancelled in the application's transaction, and a relay delivers the others when they are due.
func TestScheduledMessagesOfALogAreCancelledAndDelivered(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	ids := f.enqueue(outbox.Message{Topic: "t", Payload: []byte("a"), ScheduledAt: time.Now().Add(time.Hour)},
		outbox.Message{Topic: "t", Payload: []byte("b"), ScheduledAt: time.Now().Add(time.Hour)})
	f.inTx(func(tx pgx.Tx) error {
		if err := f.box.Subscribe(t.Context(), workqueue.Pgx(tx), outbox.Subscription{Name: "s"}); err != nil {
			return err
		}
		got, err := f.box.CancelScheduled(t.Context(), workqueue.Pgx(tx), ids[0], uuid.New())
		if len(got) != 1 || got[0] != ids[0] {
			t.Errorf("cancelled %v, want %v", got, ids[0])
		}
		return err
	})
	rows, err := outbox.Open(outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rows.CancelScheduled(t.Context(), nil); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("of rows: %v", err)
	}
	got := make(chan uuid.UUID, 2)
	f.subscriber("s", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("t", func(_ context.Context, m *outbox.Delivery) error {
			got <- m.ID
			return nil
		})
	})
	f.exec("UPDATE " + f.table + "_later SET due_at = now()")
	if id := receive(t, got); id != ids[1] {
		t.Errorf("delivered %v, want %v", id, ids[1])
	}
}
