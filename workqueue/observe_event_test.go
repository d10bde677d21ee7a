package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// outcomes are what the events have told of each row, in their order.
func (l *eventLog) outcomes() map[uuid.UUID][]workqueue.RowEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := map[uuid.UUID][]workqueue.RowEvent{}
	for _, e := range l.events {
		for _, row := range e.Rows {
			if row.Outcome != "" {
				told[row.ID] = append(told[row.ID], row)
			}
		}
	}
	return told
}

// A told is what an event should tell of a row.
type told struct {
	outcome     workqueue.RowOutcome
	reason, err string
	state       workqueue.Status
	due         bool // it says when the row is due again
}

func (r *rig) checkTold(what string, id uuid.UUID, want ...told) {
	r.Helper()
	var got []told
	for _, row := range r.Events.outcomes()[id] {
		got = append(got, told{row.Outcome, row.Reason, row.Error, row.State, !row.DueAt.IsZero()})
		if row.Outcome != workqueue.RowExhausted && row.Attempt > 0 && row.Labels["topic"] != what {
			r.Errorf("%s: its label is %q", what, row.Labels["topic"])
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("%s: told of %+v, want %+v", what, got, want)
	}
}

func withLabels(s *workqueue.Spec) { s.Labels, s.Retry = []string{"topic"}, never }

// An ending is a result that a handler can return, and what is then told.
type ending struct {
	err         error
	maxAttempts int
	want        told
}

var errBoom = errors.New("boom")

// endings are by the topics of their rows.
var endings = map[string]ending{
	"ack":    {nil, 0, told{workqueue.RowAcked, "", "", workqueue.Done, false}},
	"error":  {errBoom, 0, told{workqueue.RowAbandoned, "error", "boom", workqueue.Ready, false}},
	"last":   {errBoom, 1, told{workqueue.RowExhausted, "exhausted", "boom", workqueue.Failed, false}},
	"snooze": {workqueue.Snooze(time.Hour), 0, told{workqueue.RowSnoozed, "", "", workqueue.Ready, true}},
	"after": {workqueue.RetryAfter(time.Hour, errBoom), 0,
		told{workqueue.RowAbandoned, "error", "boom", workqueue.Ready, true}},
	"permanent": {workqueue.Permanent(errBoom), 0,
		told{workqueue.RowFailed, "permanent", "boom", workqueue.Failed, false}},
	"snoozefor": {workqueue.SnoozeFor(time.Hour, errBoom), 0,
		told{workqueue.RowSnoozed, "", "boom", workqueue.Ready, true}},
	"leave": {workqueue.LeaveFor(time.Hour, errBoom), 0,
		told{workqueue.RowLeft, "", "boom", workqueue.Ready, true}},
	"unavailable": {workqueue.Unavailable(errBoom), 0,
		told{workqueue.RowUnavailable, "", "boom", workqueue.Ready, false}},
	"cancelled": {workqueue.Cancelled("no need"), 0,
		told{workqueue.RowCancelled, "", "cancelled: no need", workqueue.Failed, false}},
}

func (r *rig) insertEndings() map[string]uuid.UUID {
	ids := map[string]uuid.UUID{}
	for _, topic := range slices.Sorted(maps.Keys(endings)) {
		row := workqueue.NewRow{Values: []any{topic, ""}, MaxAttempts: endings[topic].maxAttempts}
		ids[topic] = r.insertRows(row)[0]
	}
	return ids
}

// An Observer is told of each outcome of a handler once: which, why, and with the error as it is stored. It makes no
// difference whether a worker, a drain or a drain in a transaction settles it, or Claim.Tx together with writes.
func TestEveryOutcomeIsToldOnce(t *testing.T) {
	t.Parallel()
	settles := map[string]func(context.Context, *noteClaim) error{
		"returned": func(_ context.Context, c *noteClaim) error { return endings[c.Body.Topic].err },
		"in Tx": func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(pgx.Tx) error { return endings[c.Body.Topic].err })
		},
	}
	ways := map[string]func(*testing.T, *rig, func(context.Context, *noteClaim) error){
		"worker": func(t *testing.T, r *rig, handler func(context.Context, *noteClaim) error) {
			w := r.start(workqueue.WorkerOptions{}, handler)
			r.eventually("all settles", func() bool { return len(r.Events.outcomes()) >= len(endings) })
			if err := w.stop(t); err != nil {
				t.Error(err)
			}
		},
		"drain": func(t *testing.T, r *rig, handler func(context.Context, *noteClaim) error) {
			w, err := workqueue.NewWorker(r.Pool, r.Domain, handler, workqueue.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			drain, err := w.Drain()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := drain.Process(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"drain in a transaction": func(t *testing.T, r *rig, handler func(context.Context, *noteClaim) error) {
			w, err := workqueue.NewWorker(r.Pool, r.Domain, handler, workqueue.WorkerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = pgx.BeginFunc(t.Context(), r.Eyes, func(tx pgx.Tx) error {
				drain, err := w.DrainIn(tx)
				if err != nil {
					return err
				}
				_, err = drain.Process(t.Context())
				return err
			})
			if err != nil {
				t.Error(err)
			}
		},
	}
	for way, process := range ways {
		for how, handler := range settles {
			t.Run(way+", "+how, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigOptions{spec: withLabels})
				ids := r.insertEndings()
				process(t, r, handler)
				for topic, ending := range endings {
					r.checkTold(topic, ids[topic], ending.want)
					row := r.row(ids[topic])
					if row.Status != ending.want.state || !strings.HasPrefix(row.Error, ending.want.err) {
						t.Errorf("%s: the row is %+v, but %+v was told", topic, row, ending.want)
					}
				}
			})
		}
	}
}

// What a handler that panics, or is interrupted by a shutdown, and what a cancel leads to is told as what it is.
func TestOutcomesThatNoHandlerReturnsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: withLabels})
	started := make(chan struct{}, 2)
	w := r.start(workqueue.WorkerOptions{ShutdownTimeout: time.Millisecond}, func(ctx context.Context,
		c *noteClaim) error {
		if c.Body.Topic == "panic" {
			panic("boom")
		}
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	panicked := r.insert("panic")[0]
	cancelled := r.insert("cancelled")[0]
	receive(t, started, "a handler")
	if _, err := r.Queue.Cancel(t.Context(), []uuid.UUID{cancelled}, "no need"); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Failed, cancelled)
	interrupted := r.insert("interrupted")[0]
	receive(t, started, "a handler")
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	stack := r.row(panicked).Error
	r.checkTold("panic", panicked, told{workqueue.RowAbandoned, "error", stack, workqueue.Ready, false})
	r.checkTold("cancelled", cancelled, told{workqueue.RowCancelled, "", r.Events.outcomes()[cancelled][0].Error,
		workqueue.Failed, false})
	r.checkTold("interrupted", interrupted, told{workqueue.RowReleased, "", "", workqueue.Ready, false})
}

// A settle by ids is told, too. If it is refused, it is told as lost or gone. One that is repeated is not told again.
func TestOutcomesByIDsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: withLabels})
	ids := r.insertMany("mail", 4)
	token := workqueue.NewOwnerToken()
	if _, err := r.Queue.Claim(t.Context(), token, time.Hour, 4); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Queue.Release(t.Context(), token, ids[3:]); err != nil {
		t.Fatal(err)
	}
	r.exec("DELETE FROM notes WHERE id = $1", ids[1])
	r.exec("UPDATE notes SET owner_token = gen_random_uuid() WHERE id = $1", ids[2])
	if _, err := r.Queue.Ack(t.Context(), token, ids[:3]); !errors.Is(err, workqueue.ErrLeaseLost) {
		t.Errorf("the ack returned %v", err)
	}
	if _, err := r.Queue.Ack(t.Context(), token, ids[:1]); err != nil {
		t.Errorf("a repeated ack returned %v", err)
	}
	r.checkTold("acked", ids[0], told{outcome: workqueue.RowAcked, state: workqueue.Done})
	r.checkTold("gone", ids[1], told{outcome: workqueue.RowGone})
	r.checkTold("lost", ids[2], told{outcome: workqueue.RowLost})
	r.checkTold("released", ids[3], told{outcome: workqueue.RowReleased})
}

// If the transaction of a handler cannot be committed, its outcome is not told, but that of the next settle.
func TestAnOutcomeThatIsNotCommittedIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: withLabels})
	r.exec("CREATE TABLE parent (id int PRIMARY KEY);" +
		"CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
	w := r.start(workqueue.WorkerOptions{}, func(ctx context.Context, c *noteClaim) error {
		return c.Tx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO child VALUES (1)")
			return err
		})
	})
	id := r.insert("deferred")[0]
	r.eventually("the outcome", func() bool { return len(r.Events.outcomes()[id]) > 0 })
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	r.checkTold("deferred", id, told{workqueue.RowAbandoned, "error", r.row(id).Error, workqueue.Ready, false})
	if n := r.Events.count(refused("settle", nil)); n != 1 { // the second
		t.Errorf("told of %d settles without an error, want 1", n)
	}
}

// What is done to rows without a handler is told with what is known: dead letters of a reap with their ids, the others
// as a number.
func TestWhatHappensWithoutAHandlerIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{spec: withLabels})
	ctx := t.Context()
	last := r.insertRows(workqueue.NewRow{Values: []any{"last", ""}, MaxAttempts: 1})[0]
	again, ready := r.insert("again")[0], r.insert("ready")[0]
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(r.Queue.Claim(ctx, workqueue.NewOwnerToken(), time.Hour, 1))
	do(r.Queue.Claim(ctx, workqueue.NewOwnerToken(), time.Hour, 1))
	r.exec("UPDATE notes SET locked_until = now() - interval '1 hour' WHERE status = 1")
	do(r.Queue.ReapExpired(ctx, 10))
	do(r.Queue.Cancel(ctx, []uuid.UUID{ready}, "no need"))
	do(r.Queue.Redrive(ctx, []uuid.UUID{last}, "ops"))
	do(r.Queue.PurgeDone(ctx, 0, 10)) // the cancelled one
	r.checkTold("last", last, told{workqueue.RowExhausted, "lease_expired", r.row(last).Error, workqueue.Failed, false})
	r.checkTold("again", again)
	r.Events.mu.Lock()
	defer r.Events.mu.Unlock()
	var got []string
	for _, e := range r.Events.events {
		got = append(got, fmt.Sprint(e.Operation, e.IDs, e.Reaped, e.State))
	}
	none := workqueue.Reaped{}
	want := []string{
		fmt.Sprint("enqueue", []uuid.UUID{last}, none, ""), fmt.Sprint("enqueue", []uuid.UUID{again}, none, ""),
		fmt.Sprint("enqueue", []uuid.UUID{ready}, none, ""), fmt.Sprint("claim", []uuid.UUID{last}, none, ""),
		fmt.Sprint("claim", []uuid.UUID{again}, none, ""),
		fmt.Sprint("reap", []uuid.UUID{}, workqueue.Reaped{Requeued: 1, Failed: 1}, ""),
		fmt.Sprint("cancel", []uuid.UUID{ready}, none, ""), fmt.Sprint("redrive", []uuid.UUID{last}, none, ""),
		fmt.Sprint("purge", []uuid.UUID{ready}, none, "done"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%v, want\n%v", got, want)
	}
	claim := r.Events.events[3]
	if len(claim.Rows) != 1 || claim.Rows[0].Attempt != 1 || claim.Rows[0].Labels["topic"] != "last" ||
		claim.Rows[0].State != workqueue.InProgress {
		t.Errorf("the claim is told as %+v", claim.Rows)
	}
}
