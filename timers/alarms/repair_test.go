package alarms_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// strand creates an alarm whose last delivery was lost, as if its process had died.
func (f *fixture) strand(n alarms.New) alarms.Alarm {
	a := f.create(n)
	f.exec("UPDATE " + f.timers + " SET attempts = max_attempts - 1 WHERE status = 0")
	f.due(a.ID)
	f.claim(a.ID)
	if r := f.lose(); r.Failed != 1 {
		f.Fatalf("reaped %+v", r)
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
	if got := f.get(a.ID); got.Status != alarms.StatusFailed || got.FailureCount != 0 || got.LastError == "" {
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
	if got.Status != alarms.StatusActive || got.LastError == "" || got.FailureCount != 0 ||
		!got.NextFireAt.After(a.NextFireAt) {
		t.Errorf("got %+v", got)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Ready || !timer.DueAt.Equal(got.NextFireAt) {
		t.Errorf("timer %+v", timer)
	}
}

// Alarms may have been copied from the table of another installation.
func TestRepairGivesATimerToAnAlarmThatHasNone(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	id := uuid.NewString()
	f.exec("INSERT INTO "+f.table+" (id, owner_did, user_id, kind, fire_at, next_fire_at, wake_message) VALUES ($1, "+
		"$2, $3, 'once', now(), now(), 'copied')", id, alice, aliceUser)
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
	if _, err := f.alarms.Timers().Table().On(f.Pool).Cancel(t.Context(), []uuid.UUID{f.timer(a.ID).ID},
		"by an operator"); err != nil {
		t.Fatal(err)
	}
	f.due(a.ID)
	f.repair()
	if got := f.get(a.ID); got.Status != alarms.StatusCancelled || got.LastError != "cancelled: by an operator" {
		t.Errorf("got %+v", got)
	}
}

// An alarm whose timer will fire needs no repair. Its timer must not be set again, because that would be another
// firing.
func TestRepairLeavesAlarmsWhoseTimersWillFire(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	f.due(a.ID)
	before := f.timer(a.ID).Generation
	if n := f.repair(); n != 0 || f.timer(a.ID).Generation != before {
		t.Errorf("%d repaired, the timer's generation is %d, want %d", n, f.timer(a.ID).Generation, before)
	}
}

// Repair leaves an alarm alone until it is due, because until then its owner may still change it after an operator has
// cancelled its timer.
func TestRepairComesWhenAnAlarmIsDue(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	a := f.create(once())
	if _, err := f.alarms.Timers().Table().On(f.Pool).Cancel(t.Context(), []uuid.UUID{f.timer(a.ID).ID},
		"by an operator"); err != nil {
		t.Fatal(err)
	}
	if n := f.repair(); n != 0 || f.get(a.ID).Status != alarms.StatusActive {
		t.Errorf("%d repaired, the alarm is %s", n, f.get(a.ID).Status)
	}
}

// Repair skips an alarm that another session is cancelling or settling, so that the others do not wait for it.
func TestRepairWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	held, other := f.strand(once()), f.strand(once())
	tx, err := f.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+f.table+" WHERE id = $1 FOR UPDATE", held.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := f.dispatcher(newRecorder(nil), quick()).Repair(ctx); n != 1 || err != nil {
		t.Errorf("%d repaired, error %v, want 1", n, err)
	}
	if got := f.get(other.ID); got.Status != alarms.StatusFailed {
		t.Errorf("got %+v", got)
	}
}

// A row that cannot be repaired must not prevent the repair of others. Here a trigger refuses the oldest rows.
func TestRepairGoesOnPastARowThatIsRefused(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.exec("CREATE FUNCTION " + f.Schema + ".refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION " +
		"'refused' USING ERRCODE = '42501'; END$$")
	f.exec("CREATE TRIGGER refuse BEFORE INSERT ON " + f.timers +
		" FOR EACH ROW WHEN (NEW.fire_at < '2001-01-01') EXECUTE FUNCTION " + f.Schema + ".refuse()")
	insert := "INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, wake_message) SELECT $1, 'u', " +
		"'once', $2, 'copied' FROM generate_series(1, $3)"
	f.exec(insert, alice, "2000-01-01", 101) // more than one page
	f.exec(insert, alice, "2001-01-01", 1)
	n, err := f.dispatcher(newRecorder(nil), quick()).Repair(t.Context())
	if n != 1 || err == nil || !strings.Contains(err.Error(), "101 alarms") {
		t.Errorf("%d repaired, error %v", n, err)
	}
	if armed := ask[int](f, "SELECT count(*) FROM "+f.timers); armed != 1 {
		t.Errorf("%d timers, want that of the last row", armed)
	}
}

// The table refuses a time that no timer can have.
func TestTheTableRefusesTimesThatCannotBeArmed(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	insert := "INSERT INTO " + f.table + " (owner_did, user_id, kind, next_fire_at, wake_message) VALUES ($1, 'u', " +
		"'once', $2, 'copied')"
	for _, at := range []string{"1969-12-31 23:59:59.999999Z", "0001-01-02Z", "-infinity", "9999-01-01Z"} {
		if _, err := f.Pool.Exec(t.Context(), insert, alice, at); err == nil ||
			!strings.Contains(err.Error(), "alarms_time_check") {
			t.Errorf("%s: %v", at, err)
		}
	}
	f.exec(insert, alice, "1970-01-01Z")
	f.exec(insert, alice, "9998-12-31 23:59:59.999999Z")
	if n := f.repair(); n != 1 {
		t.Errorf("%d repaired, want the one that is due", n)
	}
}
