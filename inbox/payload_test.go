package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/inbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

type order struct{ ID int }

// encrypted configures an inbox to encrypt payloads with a key of that name, and to retry without delay.
func encrypted(t *testing.T, key string) func(*inbox.Options) {
	t.Helper()
	c, err := aesgcm.New(aesgcm.Options{Current: aesgcm.Key{ID: key, Secret: bytes.Repeat([]byte(key[:1]), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *inbox.Options) {
		o.Codec, o.MaxAttempts, o.Retry, o.DedupWindow = c, 2, workqueue.Retry{Growth: workqueue.Constant}, day
	}
}

func valued(id string, v any) inbox.Message {
	return inbox.Message{Consumer: "billing", Source: "shop", MessageID: id, Value: v}
}

// drain processes everything that is due and returns the orders that were decoded.
func (f *fixture) drain(box *inbox.Inbox) (orders []int) {
	f.Helper()
	w, err := inbox.NewWorker(f.Pool, box, inbox.WorkerOptions{Consumer: "billing",
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	if err != nil {
		f.Fatal(err)
	}
	w.HandleAll(codec.HandlerIn(func(_ context.Context, _ pgx.Tx, _ *inbox.Delivery, o order) error {
		orders = append(orders, o.ID)
		return nil
	}))
	d, err := w.Drain()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := d.Process(f.Context()); err != nil {
		f.Fatal(err)
	}
	return orders
}

func (f *fixture) redrive(id uuid.UUID) {
	f.Helper()
	if _, err := f.box.Table().On(f.Pool).Redrive(f.Context(), []uuid.UUID{id}, "operator"); err != nil {
		f.Fatal(err)
	}
}

func TestValuesAreEncodedForTheirMessage(t *testing.T) {
	t.Parallel()
	f := newInbox(t, encrypted(t, "a"))
	got := make(chan order, 1)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(codec.HandlerIn(func(_ context.Context, _ pgx.Tx, _ *inbox.Delivery,
			o order) error {
			got <- o
			return nil
		}))
	})
	m := valued("1", order{7})
	m.Headers = map[string]string{codec.TenantHeader: "acme"}
	id := f.receive(m)[0].ID
	if o := receive(t, got); o.ID != 7 {
		t.Errorf("got %+v", o)
	}
	if r := f.settled(id); r.Status != workqueue.Done || bytes.Contains(r.Payload, []byte(`"ID":7`)) {
		t.Errorf("row %+v", r)
	}
}

// A codec that encrypts returns different bytes each time, so the inbox compares the plaintext, whether it was passed
// as a value or as a payload.
func TestTheSameValueIsADuplicate(t *testing.T) {
	t.Parallel()
	f := newInbox(t, encrypted(t, "a"))
	f.receive(valued("1", order{7}))
	for _, c := range []struct {
		m    inbox.Message
		want inbox.Answer
	}{
		{valued("1", order{7}), inbox.Duplicate},
		{valued("1", order{8}), inbox.HashMismatch},
		{message("1", `{"ID":7}`), inbox.Duplicate},
	} {
		if got := f.receive(c.m)[0].Answer; got != c.want {
			t.Errorf("%+v is %v, want %v", c.m, got, c.want)
		}
	}
	own := valued("2", order{7})
	own.BodyHash = hash("with a secret")
	if r := f.row(f.receive(own)[0].ID); !bytes.Equal(r.Hash, own.BodyHash) {
		t.Errorf("hash %x, want the message's own", r.Hash)
	}
}

func TestCopiedPayloadsAreDeadLettersAndStay(t *testing.T) {
	t.Parallel()
	f := newInbox(t, encrypted(t, "a"))
	results := f.receive(valued("1", order{7}), valued("2", order{8}))
	own := f.row(results[1].ID).Payload
	f.exec("UPDATE "+f.table+" SET payload = $2 WHERE id = $1", results[1].ID, f.row(results[0].ID).Payload)
	if got := f.drain(f.box); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v", got)
	}
	r := f.row(results[1].ID)
	if r.Status != workqueue.Failed || r.Attempts != 2 ||
		!strings.Contains(r.LastError, "does not decode into inbox_test.order") {
		t.Errorf("row %+v", r)
	}
	f.exec("UPDATE "+f.table+" SET payload = $2 WHERE id = $1", results[1].ID, own)
	f.redrive(results[1].ID)
	if got := f.drain(f.box); len(got) != 1 || got[0] != 8 {
		t.Errorf("got %v after the payload was put back", got)
	}
}

func TestWhatAnotherKeySealedIsReadableWithIt(t *testing.T) {
	t.Parallel()
	f := newInbox(t, encrypted(t, "a"))
	o := inbox.Options{Schema: f.Schema, Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}}
	encrypted(t, "b")(&o)
	other, err := inbox.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	id := f.receive(valued("1", order{7}))[0].ID
	if got := f.drain(other); len(got) != 0 {
		t.Errorf("got %v without the key", got)
	}
	if r := f.row(id); r.Status != workqueue.Failed || !strings.Contains(r.LastError, `key "a" is not known here`) {
		t.Errorf("row %+v", r)
	}
	f.redrive(id)
	if got := f.drain(f.box); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v with the key", got)
	}
}

func TestRawPayloads(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.Codec = codec.Raw{} })
	got := make(chan string, 1)
	f.worker(workqueue.WorkerOptions{}, func(w *inbox.Worker) {
		w.HandleAll(codec.HandlerIn(func(_ context.Context, _ pgx.Tx, _ *inbox.Delivery,
			text string) error {
			got <- text
			return nil
		}))
	})
	id := f.receive(valued("1", []byte("as it is")))[0].ID
	if text := receive(t, got); text != "as it is" || string(f.settled(id).Payload) != text {
		t.Errorf("got %q", text)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newInbox(t, func(o *inbox.Options) { o.MaxPayload = 20 })
	both := valued("2", 1)
	both.Payload = []byte{}
	for name, c := range map[string]struct {
		bad  inbox.Message
		want string
	}{
		"both":      {both, "value is set, and so is the payload"},
		"no JSON":   {valued("2", func() {}), "value of type func() cannot be encoded: json"},
		"too large": {valued("2", strings.Repeat("x", 19)), "payload has 21 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			msgs := []inbox.Message{valued("1", order{1}), c.bad}
			err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
				_, err := f.box.ReceiveMany(t.Context(), workqueue.Pgx(tx), msgs...)
				var refused *workqueue.ItemError
				if !errors.As(err, &refused) || refused.Index != 1 || !errors.Is(err, workqueue.ErrInvalid) ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				return nil
			})
			if err != nil || f.rows() != 0 || msgs[0].Payload != nil {
				t.Errorf("something was written: %+v, %v", msgs[0], err)
			}
		})
	}
}

func TestADeliveryOfATestIsJSON(t *testing.T) {
	t.Parallel()
	var o order
	if err := (&inbox.Delivery{Payload: []byte(`{"ID": 7}`)}).Decode(t.Context(), &o); err != nil || o.ID != 7 {
		t.Errorf("%+v, %v", o, err)
	}
}

// The handlers' transactions are savepoints in the test's transaction, and are rolled back with it.
func TestDrainInATransactionThatRollsBack(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := f.box.ReceiveMany(t.Context(), workqueue.Pgx(tx), message("1", ""), message("fails", "")); err != nil {
		t.Fatal(err)
	}
	w, err := inbox.NewWorker(f.Pool, f.box, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	w.HandleAll(func(ctx context.Context, tx pgx.Tx, m *inbox.Delivery) error {
		if err := delivered(ctx, tx, m); err != nil || m.MessageID != "fails" {
			return err
		}
		return errors.New("no")
	})
	d, err := w.DrainIn(tx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.Process(t.Context()); err != nil || n != 2 {
		t.Errorf("%d messages, %v", n, err)
	}
	var effects int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM effects WHERE id = '1'").Scan(&effects); err != nil ||
		effects != 1 {
		t.Errorf("%d effects in the transaction, %v", effects, err)
	}
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&effects); err != nil || effects != 1 {
		t.Errorf("%d effects with the one that failed, %v", effects, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.effects("1") != 0 || f.rows() != 0 {
		t.Error("something is left")
	}
}

func TestDrainNeedsHandlers(t *testing.T) {
	t.Parallel()
	f := newInbox(t)
	w, err := inbox.NewWorker(f.Pool, f.box, inbox.WorkerOptions{Consumer: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Drain(); err == nil {
		t.Error("want an error")
	}
	if _, err := w.DrainIn(nil); err == nil {
		t.Error("want an error")
	}
}
