package timers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/codec/aesgcm"
)

type order struct{ ID int }

// encrypted configures timers to encrypt payloads with a key of that name, and to retry without delay.
func encrypted(t *testing.T, key string) func(*timers.Options) {
	t.Helper()
	c, err := aesgcm.New(aesgcm.Options{Current: aesgcm.Key{ID: key, Secret: bytes.Repeat([]byte(key[:1]), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *timers.Options) {
		o.Codec, o.MaxAttempts, o.Retry = c, 2, workqueue.Retry{Growth: workqueue.Constant}
	}
}

// drain fires everything that is due and returns the orders that were decoded.
func (f *fixture) drain(ts *timers.Timers) (orders []int) {
	f.Helper()
	w, err := timers.NewWorker(f.Pool, ts, timers.WorkerOptions{NoSchedules: true,
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	if err != nil {
		f.Fatal(err)
	}
	w.HandleAll(codec.Handler(func(_ context.Context, _ *timers.Delivery, o order) error {
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

func (f *fixture) redrive(key string) {
	f.Helper()
	if _, err := f.timers.Table().On(f.Pool).Redrive(f.Context(), []uuid.UUID{f.get(key).ID}, "operator"); err != nil {
		f.Fatal(err)
	}
}

// This includes a timer that is set while it fires: its payload becomes the row's when the firing is settled.
func TestValuesAreEncodedForTheirKey(t *testing.T) {
	t.Parallel()
	f := newTimers(t, encrypted(t, "a"))
	tenant := map[string]string{codec.TenantHeader: "acme"}
	got := make(chan order, 2)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.Handle("order", codec.Handler(func(_ context.Context, _ *timers.Delivery, o order) error {
			if o.ID == 7 {
				f.set(timers.Timer{Key: "k", Topic: "order", Value: order{8}, Headers: tenant})
			}
			got <- o
			return nil
		}))
	})
	f.set(timers.Timer{Key: "k", Topic: "order", Value: order{7}})
	if one, two := receive(t, got), receive(t, got); one.ID != 7 || two.ID != 8 {
		t.Errorf("got %+v, %+v", one, two)
	}
	if i := f.get("k"); bytes.Contains(i.Payload, []byte("ID")) {
		t.Errorf("payload %q", i.Payload)
	}
}

func TestCopiedPayloadsAreDeadLettersAndStay(t *testing.T) {
	t.Parallel()
	f := newTimers(t, encrypted(t, "a"))
	f.set(timers.Timer{Key: "a", Topic: "order", Value: order{7}}, timers.Timer{Key: "b", Topic: "order",
		Value: order{8}})
	own := f.get("b").Payload
	f.exec("UPDATE "+f.table+" SET payload = $1 WHERE key = 'b'", f.get("a").Payload)
	if got := f.drain(f.timers); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v", got)
	}
	i := f.get("b")
	if i.Status != workqueue.Failed || i.Attempts != 2 ||
		!strings.Contains(i.LastError, "does not decode into timers_test.order") {
		t.Errorf("timer %+v", i)
	}
	f.exec("UPDATE "+f.table+" SET payload = $1 WHERE key = 'b'", own)
	f.redrive("b")
	if got := f.drain(f.timers); len(got) != 1 || got[0] != 8 {
		t.Errorf("got %v after the payload was put back", got)
	}
}

func TestWhatAnotherKeySealedIsReadableWithIt(t *testing.T) {
	t.Parallel()
	f := newTimers(t, encrypted(t, "a"))
	o := timers.Options{Schema: f.Schema, Telemetry: workqueue.Telemetry{Logger: slog.New(slog.DiscardHandler)}}
	encrypted(t, "b")(&o)
	other, err := timers.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f.set(timers.Timer{Key: "k", Topic: "order", Value: order{7}})
	if got := f.drain(other); len(got) != 0 {
		t.Errorf("got %v without the key", got)
	}
	if i := f.get("k"); i.Status != workqueue.Failed || !strings.Contains(i.LastError, `key "a" is not known here`) {
		t.Errorf("timer %+v", i)
	}
	f.redrive("k")
	if got := f.drain(f.timers); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v with the key", got)
	}
}

// All occurrences share the payload that Put encoded, which is bound to the schedule.
func TestValuesOfSchedules(t *testing.T) {
	t.Parallel()
	f := newTimers(t, encrypted(t, "a"))
	f.put(timers.Schedule{Name: "s", Expr: "@yearly", Topic: "order", Value: order{7},
		Headers: map[string]string{codec.TenantHeader: "acme"}})
	f.put(timers.Schedule{Name: "other", Expr: "@yearly", Topic: "order", Value: order{8}})
	var key string
	f.inTx(func(tx workqueue.Tx) (err error) {
		o, err := f.timers.Schedules().Trigger(t.Context(), tx, "s")
		if key = o.Key; err == nil {
			_, err = f.timers.Schedules().Trigger(t.Context(), tx, "s")
		}
		return err
	})
	f.exec("UPDATE "+f.table+" SET schedule = 'other' WHERE key = $1", key)
	if got := f.drain(f.timers); len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v", got)
	}
	if i := f.get(key); i.Status != workqueue.Failed {
		t.Errorf("what was moved to another schedule: %+v", i)
	}
	var sched timers.ScheduleInfo
	f.inTx(func(tx workqueue.Tx) (err error) {
		sched, err = f.timers.Schedules().Get(t.Context(), tx, "s")
		return err
	})
	if bytes.Contains(sched.Payload, []byte("ID")) || sched.Value != nil {
		t.Errorf("schedule %+v", sched)
	}
	f.inTx(func(tx workqueue.Tx) error {
		err := f.timers.Schedules().Put(t.Context(), tx, timers.Schedule{Name: "x", Expr: "@yearly", Topic: "t",
			Value: 1, Payload: []byte{}})
		if !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("value and payload: %v", err)
		}
		return nil
	})
}

func TestRawPayloads(t *testing.T) {
	t.Parallel()
	f := newTimers(t, func(o *timers.Options) { o.Codec = codec.Raw{} })
	got := make(chan string, 1)
	f.worker(timersOnly(), func(w *timers.Worker) {
		w.HandleAll(codec.Handler(func(_ context.Context, _ *timers.Delivery,
			text string) error {
			got <- text
			return nil
		}))
	})
	f.set(timers.Timer{Key: "k", Topic: "a", Value: []byte("as it is")})
	if text := receive(t, got); text != "as it is" || string(f.get("k").Payload) != text {
		t.Errorf("got %q", text)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newTimers(t, func(o *timers.Options) { o.MaxPayload = 20 })
	for name, c := range map[string]struct {
		bad  timers.Timer
		want string
	}{
		"both": {timers.Timer{Key: "b", Topic: "a", Value: 1, Payload: []byte{}},
			"value is set, and so is the payload"},
		"no JSON": {timers.Timer{Key: "b", Topic: "a", Value: func() {}},
			"value of type func() cannot be encoded: json"},
		"too large": {timers.Timer{Key: "b", Topic: "a", Value: strings.Repeat("x", 19)}, "payload has 21 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			all := []timers.Timer{{Key: "a", Topic: "a", Value: order{1}}, c.bad}
			f.inTx(func(tx workqueue.Tx) error {
				_, err := f.timers.SetMany(t.Context(), tx, all...)
				var refused *workqueue.ItemError
				if !errors.As(err, &refused) || refused.Index != 1 || !errors.Is(err, workqueue.ErrInvalid) ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want one with %q", err, c.want)
				}
				return nil
			})
			if n := ask[int](f, "SELECT count(*) FROM "+f.table); n != 0 || all[0].Payload != nil {
				t.Errorf("something was written: %+v", all[0])
			}
		})
	}
}

func TestADeliveryOfATestIsJSON(t *testing.T) {
	t.Parallel()
	var o order
	if err := (&timers.Delivery{Payload: []byte(`{"ID": 7}`)}).Decode(t.Context(), &o); err != nil || o.ID != 7 {
		t.Errorf("%+v, %v", o, err)
	}
}
