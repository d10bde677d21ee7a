package alarms_test

import (
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// lose reaps a claimed delivery, as if its process had died.
func (f *fixture) lose() workqueue.Reaped {
	f.Helper()
	f.exec("UPDATE " + f.timers + " SET locked_until = now() - interval '1 second' WHERE status = 1")
	r, err := f.alarms.Timers().Table().On(f.Pool).ReapExpired(f.Context(), 10)
	if err != nil || r.Requeued+r.Failed != 1 {
		f.Fatalf("reaped %+v, error %v", r, err)
	}
	return r
}

// A process that dies between the claim and the post has delivered nothing, so the only delivery is still due.
func TestALostClaimDoesNotUseUpTheLastDelivery(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.MaxFailures = 1
	a := f.claimed(n)
	if r := f.lose(); r.Requeued != 1 {
		t.Fatalf("reaped %+v, want the timer requeued", r)
	}
	r := newRecorder(nil)
	f.dispatch(r)
	f.due(a.ID)
	if w := receive(t, r.wakes); w.AlarmID != a.ID || w.Attempt != 2 {
		t.Errorf("got %+v", w)
	}
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
}

// Only reported failures count: a lost claim between two failures changes neither the count nor the delay.
func TestLostClaimsAreNoFailures(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.MaxFailures = 2
	a := f.claimed(n)
	f.lose()
	f.dispatch(newRecorder(refused))
	f.due(a.ID)
	f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
	if got := f.get(a.ID); got.Status != alarms.StatusActive || got.NextFireAt.Sub(got.UpdatedAt) != 30*time.Second {
		t.Errorf("got %+v", got)
	}
	f.due(a.ID)
	f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
	if got := f.get(a.ID); got.FailureCount != 2 || f.timer(a.ID).Attempts != 3 {
		t.Errorf("got %+v, timer %+v", got, f.timer(a.ID))
	}
}

// An alarm whose delivery crashes its process must not be retried for ever.
func TestLostClaimsAreBounded(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.MaxFailures = 1
	a := f.create(n)
	for range alarms.MaxLostClaims {
		f.due(a.ID)
		f.claim(a.ID)
		if r := f.lose(); r.Requeued != 1 {
			t.Fatalf("reaped %+v, want the timer requeued", r)
		}
	}
	f.due(a.ID)
	f.claim(a.ID)
	if r := f.lose(); r.Failed != 1 {
		t.Fatalf("reaped %+v after %d claims, want the timer failed", r, alarms.MaxLostClaims+1)
	}
	f.repair()
	if got := f.get(a.ID); got.Status != alarms.StatusFailed || got.FailureCount != 0 || got.LastError == "" {
		t.Errorf("got %+v", got)
	}
}

// If a failed delivery is the last one because others were lost, the alarm fails.
func TestAFailureAfterTheLastClaimEndsTheAlarm(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	n := once()
	n.MaxFailures = 2
	a := f.create(n)
	for range alarms.MaxLostClaims + 1 {
		f.due(a.ID)
		f.claim(a.ID)
		f.lose()
	}
	f.dispatch(newRecorder(refused))
	f.due(a.ID)
	f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
	if got := f.get(a.ID); got.FailureCount != 1 || got.LastError != "refused" {
		t.Errorf("got %+v", got)
	}
}
