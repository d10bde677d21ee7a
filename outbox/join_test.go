package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/join"
)

func (f *fixture) startJoin(j outbox.Join) (s outbox.Started) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) (err error) {
		s, err = f.box.StartJoin(f.Context(), workqueue.Pgx(tx), j)
		return err
	})
	return s
}

func steps(n int) (msgs []outbox.Message) {
	for i := range n {
		msgs = append(msgs, outbox.Message{Topic: "step", Key: fmt.Sprint(i)})
	}
	return msgs
}

// joining runs a relay that delivers messages, and sends the topics of continuations.
func (f *fixture) joining(fails string) <-chan string {
	ended := make(chan string, 10)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("step", func(_ context.Context, m *outbox.Delivery) error {
			if m.Key == fails {
				return workqueue.Permanent(errors.New("no"))
			}
			return nil
		})
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			ended <- m.Topic
			return nil
		})
	})
	return ended
}

func TestJoinContinuesOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ordering outbox.Ordering
		fails    string
		want     string
		status   join.Status
	}{
		"all succeed":          {outbox.Unordered, "", "complete", join.Completed},
		"one fails":            {outbox.Unordered, "3", "fail", join.Failed},
		"all succeed, per key": {outbox.PerKey, "", "complete", join.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newOutbox(t, func(o *outbox.Options) { o.Ordering = c.ordering })
			ended := f.joining(c.fails)
			s := f.startJoin(outbox.Join{
				Label: "settlement", Steps: steps(10),
				OnComplete: &outbox.Message{Topic: "complete", Key: "0"}, OnFail: &outbox.Message{Topic: "fail",
					Key: "0"},
			})
			if got := receive(t, ended); got != c.want {
				t.Errorf("continued with %q", got)
			}
			f.until("everything has ended", func() bool {
				return f.count("SELECT count(*) FROM "+f.table+
					" WHERE status < 2") == 0
			})
			var state join.State
			f.inTx(func(tx pgx.Tx) (err error) {
				state, err = f.box.Joins().Get(t.Context(), workqueue.Pgx(tx), s.ID)
				return err
			})
			if state.Status != c.status || state.Succeeded+state.Failed != 10 {
				t.Errorf("the join is %+v", state)
			}
			if len(ended) > 0 {
				t.Errorf("continued once more, with %q", <-ended)
			}
		})
	}
}

func TestJoinOfARolledBackTransactionIsNone(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	tx, end := apptx.Pgx(f, f.DB)
	if _, err := f.box.StartJoin(t.Context(), tx, outbox.Join{Steps: steps(2),
		OnComplete: &outbox.Message{Topic: "complete"}}); err != nil {
		t.Fatal(err)
	}
	end(false)
	if n := f.messages() + f.count("SELECT count(*) FROM "+f.table+"_join"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestJoinRefusesDedupKeys(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	tx, end := apptx.Pgx(f, f.DB)
	defer end(false)
	for _, j := range []outbox.Join{
		{Steps: []outbox.Message{{Topic: "a"}, {Topic: "a", DedupKey: "x"}}},
		{OnFail: &outbox.Message{Topic: "a", DedupKey: "x"}},
		{Steps: []outbox.Message{{}}},
		{Steps: steps(1), Label: strings.Repeat("l", 256)},
	} {
		if _, err := f.box.StartJoin(t.Context(), tx, j); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: %v", j, err)
		}
	}
}

// TestBackoffOfTheRowsOwn in workqueue covers the kinds of backoff.
func TestBackoffOfTheMessagesOwn(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	id := f.enqueue(outbox.Message{Topic: "a", Retry: workqueue.Retry{Growth: workqueue.Quadratic, Base: time.Minute,
		Cap: time.Hour}})[0]
	f.exec("UPDATE " + f.table + " SET attempts = 1")
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return errors.New("no") })
	})
	f.settled(id)
	if in := f.row(id).DueIn; in < 4*time.Minute || in > 4*time.Minute+slack {
		t.Errorf("due %v after its creation, want the square of two minutes", in)
	}
}

// A handler can start a join in its own transaction.
func TestStepThatFansOut(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	delivered := make(chan string, 10)
	f.relay(workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.Handle("fan", func(ctx context.Context, m *outbox.Delivery) error {
			return m.Tx(ctx, func(tx pgx.Tx) error {
				_, err := f.box.StartJoin(ctx, workqueue.Pgx(tx), outbox.Join{Steps: steps(3),
					OnComplete: &outbox.Message{Topic: "complete"}})
				return err
			})
		})
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { delivered <- m.Topic; return nil })
	})
	f.enqueue(outbox.Message{Topic: "fan"})
	var got []string
	for range 4 {
		got = append(got, receive(t, delivered))
	}
	if want := []string{"step", "step", "step", "complete"}; !slices.Equal(got, want) {
		t.Errorf("delivered %v", got)
	}
}

func TestJoinIsValidatedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	f := newOutbox(t)
	step := []outbox.Message{{Topic: "a"}}
	for name, j := range map[string]outbox.Join{
		"label":    {Steps: step, Label: strings.Repeat("x", join.MaxLabel+1)},
		"policy":   {Steps: step, Policy: 9},
		"deadline": {Steps: step, Deadline: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"steps":    {Steps: slices.Repeat(step, workqueue.MaxBatch+1)},
	} {
		f.inTx(func(tx pgx.Tx) error {
			if _, err := f.box.StartJoin(t.Context(), workqueue.Pgx(tx), j); !errors.Is(err, workqueue.ErrInvalid) {
				t.Errorf("%s: %v, want it refused", name, err)
			}
			return nil
		})
	}
	if n := f.messages(); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}
