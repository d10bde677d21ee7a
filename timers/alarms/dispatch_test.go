package alarms_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/timers/alarms"
	"github.com/txwork/txwork/workqueue"
)

func TestADueAlarmIsDeliveredOnceAndThenFired(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(nil)
	f.dispatch(r)
	n := once()
	n.ConversationID, n.Payload = "conv", []byte(`{"cursor": 240}`)
	a := f.create(n)
	f.due(a.ID)
	w := receive(t, r.wakes)
	if w.UserID != aliceUser || w.ConversationID != "conv" || w.Message != "go on" ||
		!sameJSON(t, w.Payload, n.Payload) ||
		w.AlarmID != a.ID || w.Origin != "chronos" || !w.FireAt.Equal(*a.FireAt) || w.Attempt != 1 {
		t.Errorf("got %+v", w)
	}
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
	got := f.get(a.ID)
	if got.LastFiredAt == nil || got.ClaimedAt != nil || got.FailureCount != 0 || got.LastError != "" ||
		!got.UpdatedAt.After(a.UpdatedAt) || !got.FireAt.Equal(*a.FireAt) {
		t.Errorf("got %+v", got)
	}
	if alarms.ViewOf(got).NextFireAt != nil {
		t.Error("an alarm that has fired has a next time")
	}
	if f.timer(a.ID).Status != workqueue.Done || len(r.wakes) > 0 {
		t.Errorf("timer %+v, %d more wakes", f.timer(a.ID), len(r.wakes))
	}
}

func TestAnAlarmIsNotDeliveredBeforeItsTime(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(nil)
	f.dispatch(r)
	n := once()
	n.Delay = 700 * time.Millisecond
	a := f.create(n)
	receive(t, r.wakes)
	if now := f.clock(); now.Before(*a.FireAt) {
		t.Errorf("delivered before %v, at %v", a.FireAt, now)
	}
}

// The contract specifies the delays: 30 s, doubled up to 15 minutes, and max_failures deliveries in all.
func TestFailuresClimbTheLadder(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(refused)
	f.dispatch(r)
	n := once()
	n.MaxFailures = 8
	a := f.create(n)
	nominal, id := *a.FireAt, ""
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, 15 * time.Minute, 15 * time.Minute} {
		f.due(a.ID)
		w := receive(t, r.wakes)
		if w.Attempt != i+1 || !w.FireAt.Equal(nominal) || id != "" && w.ID() != id {
			t.Errorf("delivery %d: %+v", i+1, w)
		}
		id = w.ID()
		f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == i+1 })
		got := f.get(a.ID)
		if delay := got.NextFireAt.Sub(got.UpdatedAt); delay != want {
			t.Errorf("after failure %d the next delivery is %v later, want %v", i+1, delay, want)
		}
		if late := f.timer(a.ID).DueAt.Sub(got.NextFireAt); late < 0 || late > pgtest.Slack {
			t.Errorf("after failure %d the timer is due %v after next_fire_at", i+1, late)
		}
		if got.Status != alarms.StatusActive || got.LastError != "refused" || got.ClaimedAt != nil ||
			!got.FireAt.Equal(nominal) || got.LastFiredAt != nil {
			t.Errorf("after failure %d: %+v", i+1, got)
		}
	}
	f.due(a.ID)
	receive(t, r.wakes)
	f.until("it has failed", func() bool { return f.get(a.ID).Status == alarms.StatusFailed })
	if got := f.get(a.ID); got.FailureCount != 8 || got.LastError != "refused" ||
		f.timer(a.ID).Status != workqueue.Failed {
		t.Errorf("got %+v, timer %+v", got, f.timer(a.ID))
	}
}

func TestTheDefaultIsFiveDeliveries(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(refused)
	f.dispatch(r)
	a := f.create(once())
	for i := range 5 {
		f.due(a.ID)
		receive(t, r.wakes)
		f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == i+1 })
	}
	if got := f.get(a.ID); got.Status != alarms.StatusFailed {
		t.Errorf("got %+v", got)
	}
}

func TestADeliveryThatSucceedsClearsTheFailures(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	r := newRecorder(func(w alarms.Wake) error {
		if w.Attempt == 1 {
			return errRefused
		}
		return nil
	})
	f.dispatch(r)
	a := f.create(once())
	f.due(a.ID)
	f.until("it failed once", func() bool { return f.get(a.ID).FailureCount == 1 })
	f.due(a.ID)
	f.until("it has fired", func() bool { return f.get(a.ID).Status == alarms.StatusFired })
	if got := f.get(a.ID); got.FailureCount != 0 || got.LastError != "" {
		t.Errorf("got %+v", got)
	}
}

// A hostileError panics in every method that errors.Is and errors.As call. A nil one also panics in Error.
type hostileError struct{ text string }

func (e *hostileError) Error() string { return e.text }
func (e *hostileError) Unwrap() error { panic("unwrapped: " + e.text) }
func (e *hostileError) As(any) bool   { panic("converted: " + e.text) }

// An error is a failed delivery whatever its methods do.
func TestHostileErrorsAreFailedDeliveries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status string
	}{
		"nil pointer":       {(*hostileError)(nil), alarms.StatusActive},
		"empty":             {errors.New(""), alarms.StatusActive},
		"hostile":           {&hostileError{"oh"}, alarms.StatusActive},
		"permanent hostile": {workqueue.Permanent(&hostileError{"oh"}), alarms.StatusFailed},
		"permanent nil":     {workqueue.Permanent((*hostileError)(nil)), alarms.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAlarms(t)
			f.dispatch(alarms.WakerFunc(func(context.Context, alarms.Wake) error { return c.err }))
			a := f.create(once())
			f.due(a.ID)
			f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
			if got := f.get(a.ID); got.Status != c.status || got.LastError == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAPanicIsAFailedDelivery(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	f.dispatch(alarms.WakerFunc(func(context.Context, alarms.Wake) error { panic("oh") }))
	a := f.create(once())
	f.due(a.ID)
	f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
	if got := f.get(a.ID); got.LastError != "panic: oh" {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsAreStoredAsPostgreSQLTakesThem(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	o := quick()
	o.Redact = func(_ context.Context, text string) string { return strings.ReplaceAll(text, "secret", "***") }
	f.dispatch(newRecorder(func(alarms.Wake) error {
		return fmt.Errorf("a\x00b\xff secret %s", strings.Repeat("é", 5000))
	}), o)
	a := f.create(once())
	f.due(a.ID)
	f.until("the failure is recorded", func() bool { return f.get(a.ID).FailureCount == 1 })
	if got := f.get(a.ID).LastError; !strings.HasPrefix(got, "ab\uFFFD *** é") || len(got) > 2<<10+10 {
		t.Errorf("got %q", got)
	}
	if got := f.timer(a.ID).LastError; strings.Contains(got, "secret") {
		t.Errorf("timer: %q", got)
	}
}

func TestDispatchersThatCannotWork(t *testing.T) {
	t.Parallel()
	f := newAlarms(t)
	w := newRecorder(nil)
	for name, make := range map[string]func() (*alarms.Dispatcher, error){
		"pool": func() (*alarms.Dispatcher, error) {
			return alarms.NewDispatcher(nil, f.alarms, w, alarms.DispatcherOptions{})
		},
		"alarms": func() (*alarms.Dispatcher, error) {
			return alarms.NewDispatcher(f.Pool, nil, w, alarms.DispatcherOptions{})
		},
		"waker": func() (*alarms.Dispatcher, error) {
			return alarms.NewDispatcher(f.Pool, f.alarms, nil, alarms.DispatcherOptions{})
		},
	} {
		if _, err := make(); !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []alarms.DispatcherOptions{{Lease: time.Millisecond}, {ClaimLimit: -1}, {Concurrency: -1},
		{PollInterval: -1}} {
		if d, err := alarms.NewDispatcher(f.Pool, f.alarms, w, o); d != nil || !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
