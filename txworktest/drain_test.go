package txworktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/txworktest"
	"github.com/txwork/txwork/workqueue"
)

var errBroken = errors.New("the broker is down")

// byTopic is a handler whose outcome is that which the topic names.
func byTopic(ctx context.Context, m *outbox.Delivery) error {
	switch m.Topic {
	case "fails":
		return errBroken
	case "dead":
		return workqueue.Permanent(errBroken)
	case "snoozes":
		return workqueue.Snooze(time.Hour)
	case "cancelled":
		return workqueue.Cancelled("nobody wants it")
	case "panics":
		panic("a bug")
	case "tx":
		return m.Tx(ctx, func(pgx.Tx) error { return nil })
	}
	return nil
}

// places runs a test in a transaction and on a pool, which are the places where a drain may work.
func places(t *testing.T, test func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message))) {
	t.Run("in the schema", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		test(f, f.Pool, func(msgs ...outbox.Message) { f.enqueue(msgs...) })
	})
	t.Run("in the test's transaction", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		tx := f.Begin(t)
		test(f, tx, func(msgs ...outbox.Message) { f.enqueueIn(tx, msgs...) })
		txworktest.RequireNone(t, f.Pool, f.box) // nothing has committed
	})
}

func TestRunOneSaysWhatBecameOfTheRow(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		w := f.relay(byTopic)
		fails(f.T, func(t testing.TB) { txworktest.RunOne(t, q, w) }, "nothing of "+f.Schema+".outbox is due",
			"has 0 rows")
		for topic, want := range map[string]txworktest.Handled{
			"ok":        {Outcome: txworktest.Done, Attempt: 1},
			"tx":        {Outcome: txworktest.Done, Attempt: 1},
			"fails":     {Outcome: txworktest.Retried, Attempt: 1, Error: errBroken.Error(), Again: time.Minute},
			"dead":      {Outcome: txworktest.Failed, Attempt: 1, Error: errBroken.Error()},
			"snoozes":   {Outcome: txworktest.Snoozed, Again: time.Hour},
			"cancelled": {Outcome: txworktest.Cancelled, Attempt: 1, Error: "cancelled: nobody wants it"},
		} {
			enqueue(outbox.Message{Topic: topic})
			got := txworktest.RunOne(f, q, w)
			if d := want.Again - got.Again; d < 0 || d > 20*time.Second || got.Ran != true ||
				got.Table != f.Schema+".outbox" {
				f.Errorf("%s: %+v", topic, got)
			}
			row := txworktest.RequireEnqueued(f, q, f.box, txworktest.Topic(topic))
			want.ID, want.Again, want.Ran, want.Table = row.ID, got.Again, true, got.Table
			if got != want {
				f.Errorf("%s: got %+v, want %+v", topic, got, want)
			}
		}
		fails(f.T, func(t testing.TB) { txworktest.RunOne(t, q, w) }, "is due", "has 6 rows", "attempt 1, due in")
	})
}

func TestRunOneTakesOneRow(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "ok"})
		txworktest.RunOne(f, q, f.relay(byTopic))
		txworktest.RequireCount(f, q, f.box, 1,
			txworktest.Where("is ready", func(r txworktest.Row) bool { return r.Status == workqueue.Ready }))
	})
}

func TestDrainHandlesWhatIsDue(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "fails"}, outbox.Message{Topic: "dead"},
			outbox.Message{Topic: "ok", ScheduledAt: time.Now().Add(time.Hour)})
		w := f.relay(byTopic)
		handled := txworktest.Drain(f, q, w)
		if len(handled) != 3 {
			f.Errorf("%v", handled)
		}
		wantOutcomes(f.T, txworktest.Drain(f, q, w), "")
		f.Advance(f, q, 2*time.Minute)
		wantOutcomes(f.T, txworktest.Drain(f, q, w), "retried")
		f.Advance(f, q, time.Hour)
		if handled = txworktest.Drain(f, q, w); len(handled) != 2 {
			f.Errorf("%v", handled)
		}
	})
}

func TestDrainAllGoesThroughRetriesToTheEnd(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		enqueue(outbox.Message{Topic: "fails"})
		wantOutcomes(f.T, txworktest.DrainAll(f, q, f.relay(byTopic)), "retried, retried, failed")
		enqueue(outbox.Message{Topic: "ok", ScheduledAt: time.Now().Add(5 * 365 * 24 * time.Hour)})
		wantOutcomes(f.T, txworktest.DrainAll(f, q, f.relay(byTopic)), "done")
		wantOutcomes(f.T, txworktest.DrainAll(f, q, f.relay(byTopic)), "")
	})
}

func TestDrainFollowsWhatHandlersEnqueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "first"})
	wantOutcomes(t, txworktest.Drain(t, f.Pool, f.relay(func(_ context.Context, m *outbox.Delivery) error {
		if m.Topic == "first" {
			f.enqueue(outbox.Message{Topic: "second"}, outbox.Message{Topic: "third"})
		}
		return nil
	})), "done, done, done")
}

func TestDrainOfATableThatDeletesWhatIsDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	box, err := outbox.Open(outbox.Options{Schema: f.Schema, DeleteDone: true})
	if err != nil {
		t.Fatal(err)
	}
	f.box = box
	ids := f.enqueue(outbox.Message{Topic: "ok"}, outbox.Message{Topic: "tx"})
	handled := txworktest.Drain(t, f.Pool, f.relay(byTopic))
	wantOutcomes(t, handled, "done, done")
	if len(handled) == 2 && (handled[0].ID != ids[0] || handled[1].ID != ids[1]) {
		t.Errorf("%v, want %v", handled, ids)
	}
	txworktest.RequireNone(t, f.Pool, box)
}

func TestAnEndlessLoopFailsTheTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "a", MaxAttempts: 1000})
	fails(t, func(t testing.TB) {
		txworktest.Drain(t, f.Pool, f.relay(func(context.Context,
			*outbox.Delivery) error {
			return workqueue.RetryNow(errors.New("boom"))
		}))
	}, "was handled 200 times", "does its handler put it back for ever?", "boom")
	fails(t, func(t testing.TB) {
		txworktest.DrainAll(t, f.Begin(t), f.relay(func(context.Context,
			*outbox.Delivery) error {
			return workqueue.Snooze(time.Hour)
		}))
	}, "was handled 200 times")
}

func TestAnEndlessChainFailsTheTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.enqueue(outbox.Message{Topic: "a"})
	fails(t, func(t testing.TB) {
		txworktest.DrainAtMost(t, f.Pool, f.relay(func(context.Context, *outbox.Delivery) error {
			f.enqueue(outbox.Message{Topic: "a"})
			return nil
		}), 20)
	}, "ran 20 times and there is more", "does each enqueue the next?", "has 22 rows")
}

func TestDrainAllEndsWhereTheWorkerMayNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kinds := jobs.NewRegistry()
	jobs.Register(kinds, func(context.Context, *jobs.Job[paused]) error { return nil }, jobs.KindOptions[paused]{})
	client, err := jobs.Open(jobs.Options{Schema: f.Schema, Registry: kinds})
	if err != nil {
		t.Fatal(err)
	}
	err = workqueue.InTx(t.Context(), f.Pool, func(tx workqueue.Tx) error {
		_, err := client.Enqueue(t.Context(), tx, jobs.Insert{Args: paused{}})
		return errors.Join(err, client.Pause(t.Context(), tx, jobs.DefaultQueue))
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := jobs.NewWorker(f.Pool, client, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, txworktest.Drain(t, f.Pool, w), "")
	fails(t, func(t testing.TB) { txworktest.DrainAll(t, f.Pool, w) }, "are due and the worker does not claim them")
}

// paused is the args of a job in a paused queue.
type paused struct{}

func (paused) Kind() string { return "paused" }

func TestAnExpiredLeaseIsTakenBack(t *testing.T) {
	t.Parallel()
	places(t, func(f *fixture, q txworktest.Querier, enqueue func(...outbox.Message)) {
		enqueue(outbox.Message{Topic: "ok"})
		claim(f, q)
		handled := txworktest.DrainAll(f, q, f.relay(byTopic))
		wantOutcomes(f.T, handled, "lease lost, done")
		if len(handled) == 2 && (handled[0].Ran || !handled[1].Ran || handled[1].Attempt != 2) {
			f.Errorf("%+v", handled)
		}
	})
}

// claim claims a row, as a process that then dies.
func claim(f *fixture, q txworktest.Querier) {
	f.Helper()
	rows, err := q.Query(f.Context(), `SELECT "`+f.Schema+`".outbox_fetch('00000000-002a-8000-8000-000000000000',
		'30 s', 1)`)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		f.Fatal(err)
	}
}

// The text names the table, so that rows of a schedule are not taken for its jobs.
func TestHandledNamesItsTable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.enqueue(outbox.Message{Topic: "ok"})[0]
	if got, want := txworktest.RunOne(t, f.Pool, f.relay(deliver)).String(),
		fmt.Sprintf("outbox %s done in attempt 1", id); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
