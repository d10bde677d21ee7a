package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

type order struct{ ID int }

// encrypted configures an outbox to encrypt payloads with a key of that name, and to retry without delay.
func encrypted(t *testing.T, key string) func(*outbox.Options) {
	t.Helper()
	c, err := aesgcm.New(aesgcm.Options{Current: aesgcm.Key{ID: key, Secret: bytes.Repeat([]byte(key[:1]), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *outbox.Options) {
		o.Codec, o.MaxAttempts, o.Retry = c, 2, workqueue.Retry{Growth: workqueue.Constant}
	}
}

// drain delivers everything that is due and returns the orders that were decoded.
func (f *fixture) drain(box *outbox.Outbox) (orders []int) {
	f.Helper()
	r, err := outbox.NewRelay(f.Pool, box, outbox.RelayOptions{WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	if err != nil {
		f.Fatal(err)
	}
	r.HandleAll(codec.Handler(func(_ context.Context, _ *outbox.Delivery, o order) error {
		orders = append(orders, o.ID)
		return nil
	}))
	d, err := r.Drain()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := d.Process(f.Context()); err != nil {
		f.Fatal(err)
	}
	return orders
}

func TestValuesAreEncodedForTheirRow(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, encrypted(t, "a"))
	got := make(chan order, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("order", codec.Handler(func(ctx context.Context, d *outbox.Delivery, o order) error {
			return d.Tx(ctx, func(pgx.Tx) error { got <- o; return nil })
		}))
	})
	tenant := map[string]string{codec.TenantHeader: "acme"}
	id := f.enqueue(outbox.Message{Topic: "order", Value: order{7}, Headers: tenant})[0]
	if o := receive(t, got); o.ID != 7 {
		t.Errorf("got %+v", o)
	}
	r := f.settled(id)
	if r.Status != workqueue.Done || bytes.Contains(r.Payload, []byte("ID")) {
		t.Errorf("row %+v", r)
	}
}

func TestCopiedPayloadsAreDeadLettersAndStay(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, encrypted(t, "a"))
	ids := f.enqueue(outbox.Message{Topic: "order", Value: order{7}}, outbox.Message{Topic: "order", Value: order{8}})
	own := f.row(ids[1]).Payload
	f.exec("UPDATE "+f.table+" SET payload = $2 WHERE id = $1", ids[1], f.row(ids[0]).Payload)
	if got := f.drain(f.box); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v", got)
	}
	r := f.row(ids[1])
	if r.Status != workqueue.Failed || r.Attempts != 2 ||
		!strings.Contains(r.LastError, "does not decode into outbox_test.order") {
		t.Errorf("row %+v", r)
	}
	f.exec("UPDATE "+f.table+" SET payload = $2 WHERE id = $1", ids[1], own)
	f.redrive(ids[1])
	if got := f.drain(f.box); len(got) != 1 || got[0] != 8 {
		t.Errorf("got %v after the payload was put back", got)
	}
}

func (f *fixture) redrive(id uuid.UUID) {
	f.Helper()
	if _, err := f.box.Table().On(f.Pool).Redrive(f.Context(), []uuid.UUID{id}, "operator"); err != nil {
		f.Fatal(err)
	}
}

func TestWhatAnotherKeySealedIsReadableWithIt(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, encrypted(t, "a"))
	other := newKey(t, f, "b")
	id := f.enqueue(outbox.Message{Topic: "order", Value: order{7}})[0]
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

// newKey opens the fixture's table as a process with another key does.
func newKey(t *testing.T, f *fixture, key string) *outbox.Outbox {
	t.Helper()
	o := outbox.Options{Schema: f.Schema, Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}}
	encrypted(t, key)(&o)
	box, err := outbox.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestRawPayloads(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.Codec = codec.Raw{} })
	got := make(chan string, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(codec.Handler(func(_ context.Context, _ *outbox.Delivery,
			text string) error {
			got <- text
			return nil
		}))
	})
	id := f.enqueue(outbox.Message{Topic: "a", Value: []byte("as it is")})[0]
	if text := receive(t, got); text != "as it is" || string(f.settled(id).Payload) != text {
		t.Errorf("got %q", text)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.MaxPayload = 20 })
	good := outbox.Message{Topic: "a", Value: order{1}}
	for name, c := range map[string]struct {
		bad  outbox.Message
		want string
	}{
		"both":      {outbox.Message{Topic: "a", Value: 1, Payload: []byte{}}, "value is set, and so is the payload"},
		"no JSON":   {outbox.Message{Topic: "a", Value: func() {}}, "value of type func() cannot be encoded: json"},
		"too large": {outbox.Message{Topic: "a", Value: strings.Repeat("x", 19)}, "payload has 21 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			msgs := []outbox.Message{good, c.bad}
			f.inTx(func(tx pgx.Tx) error {
				_, err := f.box.EnqueueMany(t.Context(), workqueue.Pgx(tx), msgs...)
				var refused *workqueue.ItemError
				if !errors.As(err, &refused) || refused.Index != 1 || !errors.Is(err, workqueue.ErrInvalid) ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				return nil
			})
			if f.messages() != 0 || msgs[0].Payload != nil || msgs[0].ID != uuid.Nil {
				t.Errorf("something was written: %+v", msgs[0])
			}
		})
	}
}

func TestValuesOfAJoin(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, encrypted(t, "a"))
	f.inTx(func(tx pgx.Tx) error {
		_, err := f.box.StartJoin(t.Context(), workqueue.Pgx(tx), outbox.Join{
			Steps:      []outbox.Message{{Topic: "a", Value: order{1}}, {Topic: "a", Value: order{2}}},
			OnComplete: &outbox.Message{Topic: "a", Value: order{3}},
			OnFail:     &outbox.Message{Topic: "a", Value: order{4}},
		})
		return err
	})
	if got := f.drain(f.box); len(got) != 3 || got[2] != 3 {
		t.Errorf("got %v", got)
	}
}

func TestADeliveryOfATestIsJSON(t *testing.T) {
	t.Parallel()
	var o order
	d := &outbox.Delivery{Payload: []byte(`{"ID": 7}`)}
	if err := d.Decode(t.Context(), &o); err != nil || o.ID != 7 {
		t.Errorf("%+v, %v", o, err)
	}
	d.Payload = []byte("{")
	var wrong *codec.DecodeError
	if err := d.Decode(t.Context(), &o); !errors.As(err, &wrong) || wrong.Type != "outbox_test.order" {
		t.Errorf("error %v", err)
	}
}
