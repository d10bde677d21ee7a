package alarms_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// claim does what a dispatcher does before it delivers the only due alarm: it claims the timer, and records it in the
// alarm. No dispatcher settles the claim, as if the process had died.
func (f *fixture) claim(id string) {
	f.Helper()
	rows, err := f.alarms.Timers().Table().On(f.Pool).Claim(f.Context(), workqueue.NewOwnerToken(), time.Minute, 100)
	if err != nil || len(rows) != 1 || rows[0].Values[0] != alarms.KeyPrefix+id {
		f.Fatalf("claimed %v, error %v", rows, err)
	}
	f.exec("UPDATE "+f.table+" SET claimed_at = clock_timestamp(), updated_at = clock_timestamp() WHERE id = $1", id)
}

// claimed creates an alarm that is due and claimed.
func (f *fixture) claimed(n alarms.New) alarms.Alarm {
	f.Helper()
	a := f.create(n)
	f.due(a.ID)
	f.claim(a.ID)
	return a
}

func TestABegunDeliveryIsRecorded(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	h := newHanging()
	f.dispatch(h)
	a := f.create(once())
	f.create(once()) // not due
	f.due(a.ID)
	if w := receive(t, h.begun); w.AlarmID != a.ID || w.Attempt != 1 || !w.FireAt.Equal(*a.FireAt) {
		t.Errorf("got %+v", w)
	}
	if got := f.get(a.ID); got.ClaimedAt == nil || !got.UpdatedAt.After(a.UpdatedAt) ||
		got.Status != alarms.StatusActive {
		t.Errorf("got %+v", got)
	}
	h.answer <- nil
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
	if len(h.begun) > 0 {
		t.Errorf("%d more deliveries", len(h.begun))
	}
}

// Timers of other topics are not alarms.
func TestTimersOfOthersArePutBack(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.alarms.Timers().Set(t.Context(), workqueue.Pgx(tx), timers.Timer{Key: "theirs", Topic: "t"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.dispatch(newRecorder(nil))
	f.until("the dispatcher has put it back", func() bool {
		return ask[bool](f, "SELECT status = 0 AND attempts = 0 AND due_at > now() AND last_error <> '' FROM "+f.timers+
			" WHERE key = 'theirs'")
	})
}

// A way is an alarm and its receiver's answer, which decide how its delivery is settled.
type way struct {
	alarm  alarms.New
	answer error
}

// ways returns all ways to settle a delivery.
func ways() map[string]way {
	last := daily()
	last.MaxFailures = 1
	return map[string]way{
		"fired":       {once(), nil},
		"rescheduled": {daily(), nil},
		"repeated":    {once(), errRefused},
		"failed":      {once(), workqueue.Permanent(errRefused)},
		"skipped":     {last, errRefused},
	}
}

// A dispatcher whose lease has expired must not settle an alarm that another one is delivering.
func TestAStaleClaimSettlesNothing(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			h := newHanging()
			stop := f.dispatch(h)
			a := f.create(way.alarm)
			f.due(a.ID)
			receive(t, h.begun)
			f.exec("UPDATE " + f.timers + " SET owner_token = gen_random_uuid(), attempts = attempts + 1")
			before := f.get(a.ID)
			h.answer <- way.answer
			stop()
			if got := f.get(a.ID); !got.UpdatedAt.Equal(before.UpdatedAt) || got.Status != alarms.StatusActive ||
				got.ClaimedAt == nil {
				t.Errorf("got %+v", got)
			}
			if timer := f.timer(a.ID); timer.Status != workqueue.InProgress || timer.Attempts != 2 {
				t.Errorf("timer %+v", timer)
			}
		})
	}
}

// Here a cancel has ended the alarm, and not yet reached its timer: the delivery is settled before.
func TestAnAlarmThatWasCancelledIsSettledByNobody(t *testing.T) {
	t.Parallel()
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			h := newHanging()
			f.dispatch(h)
			a := f.create(way.alarm)
			f.due(a.ID)
			receive(t, h.begun)
			f.exec("UPDATE " + f.table + " SET status = 'cancelled', claimed_at = NULL")
			before := f.get(a.ID)
			h.answer <- way.answer
			f.until("its timer has ended", func() bool { return f.timer(a.ID).Status == workqueue.Failed })
			if got := f.get(a.ID); got.Status != alarms.StatusCancelled || !got.UpdatedAt.Equal(before.UpdatedAt) {
				t.Errorf("got %+v", got)
			}
			if timer := f.timer(a.ID); timer.LastError != "cancelled: the alarm has ended" {
				t.Errorf("timer %+v", timer)
			}
		})
	}
}

func TestAnAlarmThatWasCancelledIsNotDelivered(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	gone, ended := f.create(once()), f.create(once())
	f.exec("DELETE FROM "+f.table+" WHERE id = $1", gone.ID)
	f.exec("UPDATE "+f.table+" SET status = 'cancelled' WHERE id = $1", ended.ID)
	f.due(gone.ID)
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
	r := newRecorder(nil)
	f.dispatch(r)
	f.until("the dispatcher waits for the cancel", func() bool { return pgtest.SomebodyWaits(t, f.Pool, f.table) })
	if err := cancel.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.until("its timer has ended", func() bool { return f.timer(a.ID).Status == workqueue.Failed })
	if len(r.wakes) > 0 {
		t.Error("it was delivered")
	}
}
