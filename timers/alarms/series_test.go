package alarms_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// The next time of a cron alarm depends on the nominal time, not on the time of the delivery, and times that have
// passed meanwhile are skipped. Each occurrence has its own identity.
func TestASeriesGoesOnFromItsNominalTime(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(nil)
	f.dispatch(r)
	n := daily()
	n.CronExpr = "@every 90m"
	a := f.create(n)
	nominal := f.passed(a.ID, 5*time.Hour)
	first := receive(t, r.wakes)
	f.until("it is planned anew", func() bool { return f.get(a.ID).LastFiredAt != nil })
	got := f.get(a.ID)
	if want := nominal.Add(4 * 90 * time.Minute); !first.FireAt.Equal(nominal) || !got.NextFireAt.Equal(want) ||
		got.Status != alarms.StatusActive {
		t.Errorf("nominal %v, fired as %v, next %v, want %v", nominal, first.FireAt, got.NextFireAt, want)
	}
	if timer := f.timer(a.ID); !timer.ScheduledAt.Equal(got.NextFireAt) || !timer.DueAt.Equal(got.NextFireAt) ||
		timer.Status != workqueue.Ready || timer.Attempts != 0 {
		t.Errorf("timer %+v", timer)
	}
	f.due(a.ID)
	if second := receive(t, r.wakes); second.ID() == first.ID() || !second.FireAt.Equal(got.NextFireAt) ||
		second.Attempt != 1 {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

// An occurrence whose deliveries are used up does not end the series.
func TestASeriesSkipsWhatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	var healthy atomic.Bool
	r := newRecorder(func(alarms.Wake) error {
		if healthy.Load() {
			return nil
		}
		return errRefused
	})
	f.dispatch(r)
	n := daily()
	n.CronExpr, n.MaxFailures = "@hourly", 2
	a := f.create(n)
	nominal := f.passed(a.ID, 10*time.Minute)
	receive(t, r.wakes)
	f.until("one failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
	f.due(a.ID)
	if second := receive(t, r.wakes); second.Attempt != 2 || !second.FireAt.Equal(nominal) {
		t.Errorf("got %+v", second)
	}
	f.until("the series went on", func() bool {
		return f.get(a.ID).NextFireAt.After(f.clock()) &&
			f.get(a.ID).FailureCount == 0
	})
	got := f.get(a.ID)
	if got.Status != alarms.StatusActive || got.LastError != "refused" || got.LastFiredAt != nil ||
		got.NextFireAt.Minute() != 0 || got.ClaimedAt != nil {
		t.Errorf("got %+v", got)
	}
	if timer := f.timer(a.ID); timer.Status != workqueue.Ready || !timer.DueAt.Equal(got.NextFireAt) {
		t.Errorf("timer %+v", timer)
	}
	healthy.Store(true)
	f.due(a.ID)
	if third := receive(t, r.wakes); third.Attempt != 1 || !third.FireAt.Equal(got.NextFireAt) {
		t.Errorf("the next occurrence has all its deliveries: %+v", third)
	}
	f.until("it fired", func() bool { return f.get(a.ID).LastFiredAt != nil && f.get(a.ID).LastError == "" })
}

// A rule may become invalid, for example because its time zone is abolished.
func TestASeriesWithoutANextTimeEnds(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	var refuse atomic.Bool
	r := newRecorder(func(alarms.Wake) error {
		if refuse.Load() {
			return errRefused
		}
		return nil
	})
	f.dispatch(r)
	n := daily()
	n.MaxFailures = 1
	delivered, undelivered := f.create(n), f.create(n)
	f.exec("UPDATE " + f.table + " SET timezone = 'Atlantis/Capital'")
	f.due(delivered.ID)
	f.until("the series that was delivered has fired",
		func() bool { return f.get(delivered.ID).Status == alarms.StatusFired })
	refuse.Store(true)
	f.due(undelivered.ID)
	f.until("the series that could not be delivered has failed",
		func() bool { return f.get(undelivered.ID).Status == alarms.StatusFailed })
	if got := f.get(undelivered.ID); got.LastError != "refused" || got.FailureCount != 1 {
		t.Errorf("got %+v", got)
	}
}
