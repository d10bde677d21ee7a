package alarms_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// claim claims the only due alarm.
func (f *fixture) claim() alarms.Due {
	f.Helper()
	due, err := f.store.ClaimDue(f.Context(), 100, time.Minute)
	if err != nil || len(due) != 1 {
		f.Fatalf("%d claimed, error %v", len(due), err)
	}
	return due[0]
}

func (f *fixture) dueAlarm(n alarms.New) (alarms.Alarm, alarms.Due) {
	f.Helper()
	a := f.create(n)
	f.due(a.ID)
	return a, f.claim()
}

func TestClaimDueTakesWhatIsDueOnce(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, d := f.dueAlarm(once())
	f.create(once()) // not due
	if d.ID != a.ID || d.Attempt != 1 || !d.Nominal.Equal(*a.FireAt) || d.ClaimedAt == nil {
		t.Errorf("got %+v", d)
	}
	if !d.UpdatedAt.After(a.UpdatedAt) {
		t.Errorf("updated at %v, created at %v", d.UpdatedAt, a.UpdatedAt)
	}
	if again, err := f.store.ClaimDue(t.Context(), 100, time.Minute); err != nil || len(again) != 0 {
		t.Errorf("%d claimed, error %v", len(again), err)
	}
	if _, err := f.store.ClaimDue(t.Context(), 0, time.Minute); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestClaimDueKeepsToItsBatch(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for range 5 {
		f.due(f.create(once()).ID)
	}
	total := 0
	for _, want := range []int{2, 2, 1, 0} {
		due, err := f.store.ClaimDue(t.Context(), 2, time.Minute)
		if total += len(due); err != nil || len(due) != want {
			t.Errorf("%d claimed, want %d, error %v", len(due), want, err)
		}
	}
}

// Timers of other topics are not alarms.
func TestClaimDuePutsTimersOfOthersBack(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.alarms.Timers().Set(t.Context(), workqueue.Pgx(tx), timers.Timer{Key: "theirs", Topic: "t"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.dueAlarm(once())
	if got := ask[string](f, "SELECT status || ' ' || attempts || ' ' || (due_at > now()) FROM "+f.timers+
		" WHERE key = 'theirs'"); got != "0 0 true" {
		t.Errorf("got %s", got)
	}
	f.exec("UPDATE " + f.timers + " SET due_at = now() WHERE key = 'theirs'")
	f.dispatch(newRecorder(nil))
	f.until("the dispatcher has put it back", func() bool {
		return ask[bool](f, "SELECT status = 0 AND attempts = 0 AND due_at > now() FROM "+f.timers+
			" WHERE key = 'theirs'")
	})
}

func TestMarkFired(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, d := f.dueAlarm(once())
	if err := f.store.MarkFired(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.ID); got.Status != alarms.StatusFired || got.LastFiredAt == nil || got.ClaimedAt != nil {
		t.Errorf("got %+v", got)
	}
	if f.timer(a.ID).Status != workqueue.Done {
		t.Errorf("timer %+v", f.timer(a.ID))
	}
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, d := f.dueAlarm(daily())
	next := f.clock().Add(time.Hour).Truncate(time.Second)
	if err := f.store.Reschedule(t.Context(), d, next); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.ID); got.Status != alarms.StatusActive || got.LastFiredAt == nil || !got.NextFireAt.Equal(next) {
		t.Errorf("got %+v", got)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Ready || !timer.ScheduledAt.Equal(next) ||
		!timer.DueAt.Equal(next) || timer.Attempts != 0 {
		t.Errorf("timer %+v", timer)
	}
}

func TestRecordRetry(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.MaxFailures = 2
	a, d := f.dueAlarm(n)
	if err := f.store.RecordRetry(t.Context(), d, -time.Second, errRefused); !errors.Is(err, workqueue.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := f.store.RecordRetry(t.Context(), d, time.Minute, errRefused); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.ID); got.FailureCount != 1 || got.LastError != "refused" ||
		got.NextFireAt.Sub(got.UpdatedAt) != time.Minute {
		t.Errorf("got %+v", got)
	}
	f.due(a.ID)
	if err := f.store.RecordRetry(t.Context(), f.claim(), time.Minute, errRefused); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("a third delivery of two: %v", err)
	}
}

func TestMarkFailed(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, d := f.dueAlarm(once())
	if err := f.store.MarkFailed(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.ID); got.Status != alarms.StatusFailed || got.LastError != "no reason given" ||
		got.FailureCount != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestRescheduleAfterFailure(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a, d := f.dueAlarm(daily())
	next := f.clock().Add(time.Hour).Truncate(time.Second)
	if err := f.store.RescheduleAfterFailure(t.Context(), d, next, errRefused); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.ID); got.Status != alarms.StatusActive || got.LastFiredAt != nil || !got.NextFireAt.Equal(next) ||
		got.LastError != "refused" || got.FailureCount != 0 {
		t.Errorf("got %+v", got)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Ready || !timer.DueAt.Equal(next) {
		t.Errorf("timer %+v", timer)
	}
}

// settles returns all the ways to settle a claim.
func (f *fixture) settles() map[string]func(alarms.Due) error {
	ctx, next := f.Context(), time.Now().Add(time.Hour)
	return map[string]func(alarms.Due) error{
		"MarkFired":  func(d alarms.Due) error { return f.store.MarkFired(ctx, d) },
		"Reschedule": func(d alarms.Due) error { return f.store.Reschedule(ctx, d, next) },
		"RecordRetry": func(d alarms.Due) error {
			return f.store.RecordRetry(ctx, d, time.Minute, errRefused)
		},
		"MarkFailed": func(d alarms.Due) error { return f.store.MarkFailed(ctx, d, errRefused) },
		"RescheduleAfterFailure": func(d alarms.Due) error {
			return f.store.RescheduleAfterFailure(ctx, d, next, errRefused)
		},
	}
}

// A dispatcher whose lease has expired must not settle an alarm that another one is delivering.
func TestAStaleClaimSettlesNothing(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for name, settle := range f.settles() {
		a, stale := f.dueAlarm(daily())
		f.exec("UPDATE " + f.timers + " SET locked_until = now() - interval '1 second' WHERE status = 1")
		if _, err := f.alarms.Timers().Table().On(f.Pool).ReapExpired(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		f.due(a.ID)
		current := f.claim()
		before := f.get(a.ID)
		if err := settle(stale); !errors.Is(err, workqueue.ErrLeaseLost) {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.get(a.ID); got.UpdatedAt != before.UpdatedAt || got.Status != alarms.StatusActive {
			t.Errorf("%s: got %+v", name, got)
		}
		if current.Attempt != 2 {
			t.Errorf("the lost delivery counts: attempt %d", current.Attempt)
		}
		if err := f.store.MarkFired(t.Context(), current); err != nil {
			t.Errorf("%s: the current claim: %v", name, err)
		}
	}
}

func TestAnAlarmThatWasCancelledIsSettledByNobody(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	for name, settle := range f.settles() {
		a, d := f.dueAlarm(daily())
		cancelled, err := f.store.CancelAlarm(t.Context(), a.ID, alice)
		if err != nil {
			t.Fatal(err)
		}
		if err := settle(d); !errors.Is(err, alarms.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.get(a.ID); got.Status != alarms.StatusCancelled || got.UpdatedAt != cancelled.UpdatedAt {
			t.Errorf("%s: got %+v", name, got)
		}
		if f.timer(a.ID).Status != workqueue.Failed {
			t.Errorf("%s: timer %+v", name, f.timer(a.ID))
		}
	}
}

func TestAnAlarmThatWasCancelledIsNotDelivered(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	gone, ended := f.create(once()), f.create(once())
	f.exec("DELETE FROM "+f.table+" WHERE id = $1", gone.ID)
	f.exec("UPDATE "+f.table+" SET status = 'cancelled' WHERE id = $1", ended.ID)
	f.due(gone.ID)
	if due, err := f.store.ClaimDue(t.Context(), 10, time.Minute); err != nil || len(due) != 0 {
		t.Errorf("%d claimed, error %v", len(due), err)
	}
	f.due(ended.ID)
	r := newRecorder(nil)
	f.dispatch(r)
	f.until("their timers have ended", func() bool {
		return f.timer(gone.ID).Status == workqueue.Failed && f.timer(ended.ID).Status == workqueue.Failed
	})
	if len(r.wakes) > 0 {
		t.Error("it was delivered")
	}
}

// A cancel has locked the alarm, and not yet cancelled its timer.
func TestAnAlarmThatIsCancelledThisMomentIsNotDelivered(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	f.due(a.ID)
	cancel, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cancel.Rollback(t.Context())
	if _, err := cancel.Exec(t.Context(), "UPDATE "+f.table+" SET status = 'cancelled' WHERE id = $1",
		a.ID); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan int, 1)
	go func() {
		due, err := f.store.ClaimDue(t.Context(), 10, time.Minute)
		if err != nil {
			t.Error(err)
		}
		claimed <- len(due)
	}()
	f.until("the claim waits for the cancel", func() bool { return pgtest.SomebodyWaits(t, f.Pool, f.table) })
	if err := cancel.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := receive(t, claimed); n != 0 {
		t.Errorf("%d claimed", n)
	}
}
