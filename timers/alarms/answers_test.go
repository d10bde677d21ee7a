package alarms_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

// answering runs a dispatcher whose receiver always answers with this status.
func (f *fixture) answering(status int, retryAfter string) {
	f.Helper()
	url := serve(f, func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, "because", status)
	})
	f.dispatch(newHTTPWaker(f, alarms.HTTPWakerOptions{URL: url, AllowPrivate: true}))
}

// 410 Gone says that the receiver wants no more wakes, so it ends the alarm, even a cron alarm.
func TestGoneEndsAnAlarm(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]alarms.New{"once": once(), "series": daily()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			f.answering(http.StatusGone, "")
			a := f.create(n)
			f.due(a.ID)
			f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
			got := f.get(a.ID)
			if got.FailureCount != 1 || got.LastError != "the receiver answered 410 Gone: because" {
				t.Errorf("got %+v", got)
			}
			if f.timer(a.ID).Status != workqueue.Failed {
				t.Errorf("timer %+v", f.timer(a.ID))
			}
		})
	}
}

// Retry-After can delay the next delivery, by a day at most, but never makes it earlier.
func TestRetryAfterIsTakenIntoConsideration(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		status     int
		retryAfter string
		least      time.Duration
		most       time.Duration
	}{
		"seconds":  {429, "300", 5 * time.Minute, 5 * time.Minute},
		"of a 503": {503, "300", 5 * time.Minute, 5 * time.Minute},
		"a date": {503, time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat), 5 * time.Minute,
			10 * time.Minute},
		"sooner":          {429, "1", 30 * time.Second, 30 * time.Second},
		"without end":     {429, "99999999999999999999", 24 * time.Hour, 24 * time.Hour},
		"a date too far":  {429, "Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour, 24 * time.Hour},
		"a date that was": {429, "Sun, 06 Nov 1994 08:49:37 GMT", 30 * time.Second, 30 * time.Second},
		"negative":        {429, "-5", 30 * time.Second, 30 * time.Second},
		"nonsense":        {429, "soon", 30 * time.Second, 30 * time.Second},
		"none":            {429, "", 30 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			f.answering(x.status, x.retryAfter)
			a := f.create(once())
			f.due(a.ID)
			f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
			got := f.get(a.ID)
			if delay := got.NextFireAt.Sub(got.UpdatedAt); delay < x.least || delay > x.most ||
				got.Status != alarms.StatusActive {
				t.Errorf("the next delivery comes after %v, want %v to %v", delay, x.least, x.most)
			}
		})
	}
}

// An application's own Waker expresses the same with the outcomes that all handlers use. The cause of the outcome is
// stored.
func TestAWakersOutcomes(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.dispatch(newRecorder(func(w alarms.Wake) error {
		if w.Attempt == 1 {
			return workqueue.RetryAfter(time.Hour, errors.New("busy"))
		}
		return workqueue.Permanent(errors.New("unknown agent"))
	}))
	a := f.create(once())
	f.due(a.ID)
	f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
	if got := f.get(a.ID); got.LastError != "busy" || got.NextFireAt.Sub(got.UpdatedAt) != time.Hour {
		t.Errorf("got %+v", got)
	}
	f.due(a.ID)
	f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
	if got := f.get(a.ID); got.LastError != "unknown agent" || got.FailureCount != 2 {
		t.Errorf("got %+v", got)
	}
}
