package alarms_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// strand has the last delivery of an alarm die with its process.
func (f *fixture) strand(n alarms.New) alarms.Alarm {
	n.MaxFailures = 1
	a, _ := f.dueAlarm(n)
	f.exec("UPDATE " + f.timers + " SET locked_until = now() - interval '1 second' WHERE status = 1")
	if r, err := f.alarms.Timers().Table().On(f.Pool).ReapExpired(f.Context(), 10); err != nil || r.Failed != 1 {
		f.Fatalf("reaped %+v, error %v", r, err)
	}
	return a
}

func (f *fixture) repair() int {
	f.Helper()
	n, err := f.dispatcher(newRecorder(nil), quick()).Repair(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return n
}

func TestRepairEndsAnAlarmWhoseLastDeliveryDied(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.strand(once())
	if n := f.repair(); n != 1 {
		t.Errorf("%d repaired", n)
	}
	if got := f.get(a.ID); got.Status != alarms.StatusFailed || got.FailureCount != 1 || got.LastError == "" {
		t.Errorf("got %+v", got)
	}
	if n := f.repair(); n != 0 {
		t.Errorf("%d repaired again", n)
	}
}

func TestRepairMovesASeriesOnWhoseLastDeliveryDied(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.strand(daily())
	if n := f.repair(); n != 1 {
		t.Errorf("%d repaired", n)
	}
	got := f.get(a.ID)
	if got.Status != alarms.StatusActive || got.LastError == "" || got.FailureCount != 0 || !got.NextFireAt.After(a.NextFireAt) {
		t.Errorf("got %+v", got)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Ready || !timer.DueAt.Equal(got.NextFireAt) {
		t.Errorf("timer %+v", timer)
	}
}

// The rows of another installation can be copied into the table.
func TestRepairGivesATimerToAnAlarmThatHasNone(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	id := uuid.NewString()
	f.exec("INSERT INTO "+f.table+" (id, owner_did, user_id, kind, fire_at, next_fire_at, wake_message) VALUES ($1, $2, $3, 'once', now(), now(), 'copied')", id, alice, aliceUser)
	r := newRecorder(nil)
	f.dispatch(r)
	if w := receive(t, r.wakes); w.Message != "copied" || w.AlarmID != id {
		t.Errorf("got %+v", w)
	}
	f.until("it has fired", func() bool { return f.get(id).Status == alarms.StatusFired })
}

func TestRepairCancelsAnAlarmWhoseTimerWasCancelled(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	if _, err := f.alarms.Timers().Table().On(f.Pool).Cancel(t.Context(), []uuid.UUID{f.timer(a.ID).ID}, "by an operator"); err != nil {
		t.Fatal(err)
	}
	f.due(a.ID)
	f.repair()
	if got := f.get(a.ID); got.Status != alarms.StatusCancelled || got.LastError != "cancelled: by an operator" {
		t.Errorf("got %+v", got)
	}
}
