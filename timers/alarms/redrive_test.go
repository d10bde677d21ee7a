package alarms_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// redrive does to the alarm's timer what txwork redrive does.
func (f *fixture) redrive(id string) {
	f.Helper()
	timer := ask[uuid.UUID](f, "SELECT id FROM "+f.timers+" WHERE key = 'alarm/' || $1", id)
	redriven, err := f.alarms.Timers().Table().On(f.Pool).Redrive(f.Context(), []uuid.UUID{timer}, "")
	if err != nil || len(redriven) != 1 {
		f.Fatalf("redriven %v, error %v", redriven, err)
	}
}

// An alarm that has failed is delivered once more if an operator redrives its timer, with all its deliveries and as the
// same firing.
func TestAFailedAlarmIsRedriven(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]struct {
		alarm alarms.New
		fails error
		after string
	}{
		"once":   {once(), errRefused, alarms.StatusFired},
		"series": {daily(), workqueue.Permanent(errRefused), alarms.StatusActive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			made.alarm.MaxFailures = 2
			a := f.create(made.alarm)
			f.exec("UPDATE "+f.table+" SET failure_count = 1 WHERE id = $1", a.ID) // the next failure is the last
			nominal := f.passed(a.ID, time.Hour)
			fails := newRecorder(func(alarms.Wake) error { return made.fails })
			stop := f.dispatch(fails)
			first := receive(t, fails.wakes)
			f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
			stop()

			f.redrive(a.ID)
			again := newRecorder(refused)
			stop = f.dispatch(again)
			second := receive(t, again.wakes)
			f.until("it is retried", func() bool { return f.get(a.ID).FailureCount == 1 })
			if got := f.get(a.ID); got.Status != alarms.StatusActive || got.LastError != "refused" {
				t.Errorf("after a redrive and another failure: %+v", got)
			}
			if second.ID() != first.ID() || !second.FireAt.Equal(nominal) {
				t.Errorf("redriven as firing %s of %v, was %s", second.ID(), second.FireAt, first.ID())
			}
			stop()

			f.due(a.ID)
			answers := newRecorder(nil)
			f.dispatch(answers)
			receive(t, answers.wakes)
			f.until("it is delivered", func() bool { return f.get(a.ID).LastFiredAt != nil })
			if got := f.get(a.ID); got.Status != made.after || got.LastError != "" || got.FailureCount != 0 {
				t.Errorf("after the delivery: %+v", got)
			}
		})
	}
}

// What its owner has cancelled stays so, whatever is redriven.
func TestACancelledAlarmIsNotRedriven(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	if _, err := f.store.CancelAlarm(t.Context(), a.ID, alice); err != nil {
		t.Fatal(err)
	}
	f.redrive(a.ID)
	r := newRecorder(nil)
	f.dispatch(r)
	f.until("its timer has ended again", func() bool { return f.timer(a.ID).Status == workqueue.Failed })
	if got := f.get(a.ID); len(r.wakes) > 0 || got.Status != alarms.StatusCancelled {
		t.Errorf("%d wakes, %+v", len(r.wakes), got)
	}
}

// From the claim of its redriven timer on the alarm is active, and its owner can cancel it.
func TestARedrivenAlarmCanBeCancelled(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	h := newHanging()
	f.dispatch(h)
	a := f.create(once())
	f.due(a.ID)
	receive(t, h.begun)
	h.answer <- workqueue.Permanent(errRefused)
	f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
	f.redrive(a.ID)
	w := receive(t, h.begun)
	if got := f.get(a.ID); w.Attempt != 1 || got.Status != alarms.StatusActive || got.FailureCount != 0 {
		t.Errorf("%+v is delivered, %+v", got, w)
	}
	if got, err := f.store.CancelAlarm(t.Context(), a.ID, alice); err != nil || got.Status != alarms.StatusCancelled {
		t.Errorf("cancelled: %+v, %v", got, err)
	}
	h.answer <- nil
}
