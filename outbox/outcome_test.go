package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// outcomes are the results of a handler, and the row after each.
var outcomes = map[string]struct {
	result func() error
	want   row
	// rollsBack means that Tx does not commit what the handler wrote.
	rollsBack bool
}{
	"nil": {
		result: func() error { return nil },
		want:   row{Status: workqueue.Done, Attempts: 1},
	},
	"error": {
		result:    func() error { return errors.New("broker is away") },
		want:      row{Status: workqueue.Ready, Attempts: 1, LastError: "broker is away", DueIn: time.Hour},
		rollsBack: true,
	},
	"Permanent": {
		result: func() error { return workqueue.Permanent(errors.New("no such account")) },
		want:   row{Status: workqueue.Failed, Attempts: 1, LastError: "no such account"},
	},
	"wrapped Permanent": {
		result: func() error { return fmt.Errorf("order 7: %w", workqueue.Permanent(errors.New("no such account"))) },
		want:   row{Status: workqueue.Failed, Attempts: 1, LastError: "no such account"},
	},
	"RetryAfter": {
		result: func() error { return workqueue.RetryAfter(2*time.Hour, errors.New("quota")) },
		want:   row{Status: workqueue.Ready, Attempts: 1, LastError: "quota", DueIn: 2 * time.Hour},
	},
	"RetryByPolicy": {
		result: func() error { return workqueue.RetryByPolicy(errors.New("half of it")) },
		want:   row{Status: workqueue.Ready, Attempts: 1, LastError: "half of it", DueIn: time.Hour},
	},
	"Snooze": {
		result: func() error { return workqueue.Snooze(3 * time.Hour) },
		want:   row{Status: workqueue.Ready, Attempts: 0, DueIn: 3 * time.Hour},
	},
	"Cancelled": {
		result: func() error { return workqueue.Cancelled("order withdrawn") },
		want:   row{Status: workqueue.Failed, Attempts: 1, LastError: "cancelled: order withdrawn", Cancelled: true},
	},
	"panic": {
		result:    func() error { panic("out of cheese") },
		want:      row{Status: workqueue.Ready, Attempts: 1, LastError: "panic: out of cheese", DueIn: time.Hour},
		rollsBack: true,
	},
}

func TestAHandlersResultSettlesTheMessage(t *testing.T) {
	t.Parallel()
	for name, c := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
				r.Handle("a", func(context.Context, *outbox.Delivery) error { return c.result() })
			})
			f.expectOutcome(f.settled(f.enqueue(outbox.Message{Topic: "a"})[0]), c.want)
		})
	}
}

func TestTxSettlesTheMessageWithTheHandlersWrites(t *testing.T) {
	t.Parallel()
	for name, c := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t)
			f.exec("CREATE TABLE " + f.Schema + ".effects (id uuid)")
			f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
				r.Handle("a", func(ctx context.Context, m *outbox.Delivery) error {
					return m.Tx(ctx, func(tx pgx.Tx) error {
						return errors.Join(f.effect(ctx, tx, m), c.result())
					})
				})
			})
			f.expectOutcome(f.settled(f.enqueue(outbox.Message{Topic: "a"})[0]), c.want)
			want := 1
			if c.rollsBack {
				want = 0
			}
			if n := f.effects(); n != want {
				t.Errorf("%d effects, want %d", n, want)
			}
		})
	}
}

func (f *fixture) effects() int {
	f.Helper()
	return f.count("SELECT count(*) FROM " + f.Schema + ".effects")
}

func (f *fixture) expectOutcome(got, want row) {
	f.Helper()
	switch {
	case got.Status != want.Status, got.Attempts != want.Attempts, got.Cancelled != want.Cancelled:
		f.Errorf("got %+v, want %+v", got, want)
	case !strings.HasPrefix(got.LastError, want.LastError), want.LastError == "" && got.LastError != "":
		f.Errorf("last error is %q, want %q", got.LastError, want.LastError)
	case got.DueIn < want.DueIn, got.DueIn > want.DueIn+slack:
		f.Errorf("due %v after it was enqueued, want %v", got.DueIn, want.DueIn)
	}
}

func TestTxOfALostLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	f.exec("CREATE TABLE " + f.Schema + ".effects (id uuid)")
	result := make(chan error, 1)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("a", func(ctx context.Context, m *outbox.Delivery) error {
			err := m.Tx(ctx, func(tx pgx.Tx) error {
				// Another relay has claimed the message meanwhile.
				f.exec("UPDATE "+f.table+" SET owner_token = gen_random_uuid() WHERE id = $1", m.ID)
				return f.effect(ctx, tx, m)
			})
			result <- err
			return err
		})
	})
	id := f.enqueue(outbox.Message{Topic: "a"})[0]
	if err := receive(t, result); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("Tx: %v, want ErrLeaseLost", err)
	}
	if n := f.effects(); n != 0 {
		t.Errorf("%d effects of a stale claim", n)
	}
	if got := f.row(id); got.Status != workqueue.InProgress {
		t.Errorf("the message is %v: the stale claim settled it", got.Status)
	}
}

func TestRepeatedAttemptsHaveOneEffect(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) {
		o.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: time.Millisecond, Cap: time.Millisecond}
	})
	f.exec("CREATE TABLE " + f.Schema + ".effects (id uuid)")
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("a", func(ctx context.Context, m *outbox.Delivery) error {
			return m.Tx(ctx, func(tx pgx.Tx) error {
				if err := f.effect(ctx, tx, m); err != nil || m.Attempt == 3 {
					return err
				}
				return fmt.Errorf("attempt %d", m.Attempt)
			})
		})
	})
	id := f.enqueue(outbox.Message{Topic: "a"})[0]
	f.until("the message is delivered", func() bool { return f.row(id).Status == workqueue.Done })
	if got := f.row(id); got.Attempts != 3 || f.effects() != 1 {
		t.Errorf("%d attempts had %d effects, want 3 and 1", got.Attempts, f.effects())
	}
}

func TestDeleteDoneDeletesDeliveredMessages(t *testing.T) {
	t.Parallel()
	f := newOutbox(t, func(o *outbox.Options) { o.DeleteDone = true })
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("a", func(context.Context, *outbox.Delivery) error { return nil })
	})
	first := f.enqueue(once("a", "first"))[0]
	f.until("the message is deleted", func() bool { return f.messages() == 0 })
	if second := f.enqueue(once("a", "second"))[0]; second == first {
		t.Error("the dedup key is still taken")
	}
}

func TestADeliveryOfNoRelayHasNoTx(t *testing.T) {
	t.Parallel()
	m := &outbox.Delivery{Topic: "a"}
	if err := m.Tx(t.Context(), func(pgx.Tx) error { return nil }); err == nil {
		t.Error("want an error")
	}
}
