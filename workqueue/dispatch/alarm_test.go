package dispatch_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// A platform has one alarm. It calls fire when the alarm goes off.
type platform struct {
	fire func()

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time
	sets  int
	fail  error
}

func (p *platform) SetAlarm(ctx context.Context, in time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return p.fail
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.stop()
	p.sets++
	p.at = time.Now().Add(in)
	p.timer = time.AfterFunc(in, p.goOff)
	return nil
}

func (p *platform) goOff() {
	p.mu.Lock()
	p.at, p.timer = time.Time{}, nil
	p.mu.Unlock()
	if p.fire != nil {
		p.fire()
	}
}

func (p *platform) ClearAlarm(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	return p.fail
}

func (p *platform) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.at, p.timer = time.Time{}, nil
}

// in returns when the alarm goes off; negative if none is set.
func (p *platform) in() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		return -1
	}
	return time.Until(p.at)
}

func wakeIn(ds ...time.Duration) func(int) (*dispatch.Wake, error) {
	calls := 0
	return func(int) (*dispatch.Wake, error) {
		d := ds[min(calls, len(ds)-1)]
		calls++
		if d < 0 {
			return nil, nil
		}
		return &dispatch.Wake{In: d}, nil
	}
}

func TestAlarmSetsTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		s := &script{next: wakeIn(time.Minute, time.Hour, -1)}
		a := dispatch.NewAlarm(s, p, nil)
		p.fire = func() { a.Fire(t.Context()) }
		if err := a.Fire(t.Context()); err != nil || p.in() != time.Minute {
			t.Errorf("fired: %v, the alarm is set in %v", err, p.in())
		}
		sleepFor(time.Minute)
		if s.count() != 2 || p.in() != time.Hour {
			t.Errorf("after %d runs the alarm is set in %v", s.count(), p.in())
		}
		sleepFor(time.Hour)
		if s.count() != 3 || p.in() != -1 {
			t.Errorf("after %d runs, with nothing left, the alarm is set in %v", s.count(), p.in())
		}
	})
}

func TestAlarmIsNeverPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		a := dispatch.NewAlarm(&script{next: wakeIn(time.Minute, time.Hour, -1, time.Second, time.Millisecond)}, p,
			nil)
		for i, want := range []time.Duration{time.Minute, time.Minute, time.Minute, time.Second, time.Millisecond} {
			if err := a.Schedule(t.Context()); err != nil || p.in() != want {
				t.Errorf("schedule %d: %v, the alarm is set in %v, want %v", i, err, p.in(), want)
			}
		}
		p.ClearAlarm(t.Context())
	})
}

// An alarm that the platform lost must not keep the next from being set.
func TestAlarmThatWasLostIsSetAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		a := dispatch.NewAlarm(&script{next: wakeIn(time.Minute)}, p, nil)
		a.Schedule(t.Context())
		sleepFor(time.Hour) // the alarm does not call Fire
		if err := a.Schedule(t.Context()); err != nil || p.in() != time.Minute {
			t.Errorf("%v, the alarm is set in %v", err, p.in())
		}
		p.ClearAlarm(t.Context())
	})
}

func TestAlarmCoalescesFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running, release := make(chan struct{}), make(chan struct{})
		s := &script{process: func(run int) error {
			if run == 1 {
				close(running)
				<-release
			}
			return nil
		}}
		a := dispatch.NewAlarm(s, &platform{}, nil)
		done := make(chan error)
		go func() { done <- a.Fire(t.Context()) }()
		<-running
		for range 50 {
			if err := a.Fire(t.Context()); err != nil {
				t.Error(err)
			}
		}
		close(release)
		if err := <-done; err != nil || s.count() != 2 {
			t.Errorf("%v, %d runs, want the first and one for all fires during it", err, s.count())
		}
		if err := a.Fire(t.Context()); err != nil || s.count() != 3 {
			t.Errorf("%v, %d runs after another fire", err, s.count())
		}
	})
}

func TestAlarmFailures(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	always := func(err error) func(int) (*dispatch.Wake, error) {
		return func(int) (*dispatch.Wake, error) { return nil, err }
	}
	for name, s := range map[string]*script{
		"process":          {name: "orders", process: func(int) error { return boom }},
		"process panics":   {name: "orders", process: func(int) error { panic(boom) }},
		"next wake":        {name: "orders", next: always(boom)},
		"next wake panics": {name: "orders", next: func(int) (*dispatch.Wake, error) { panic(boom) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &platform{}
				told := 0
				a := dispatch.NewAlarm(s, p, func(error) { told++; panic("in onError, too") })
				for fires := 1; fires <= 3; fires++ {
					err := a.Fire(t.Context())
					if err == nil || !strings.Contains(err.Error(), "boom") ||
						!strings.Contains(err.Error(), "orders") {
						t.Errorf("Fire returned %v", err)
					}
					if s.count() != fires || told != fires || p.in() <= 0 || p.in() > time.Minute {
						t.Errorf("after fire %d: %d runs, told %d times, the alarm is set in %v", fires, s.count(),
							told, p.in())
					}
				}
				p.ClearAlarm(t.Context())
			})
		})
	}
}

// If the context of a Fire ends, as that of a request does, the alarm still works and is set.
func TestAlarmOutlivesACancelledFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &platform{}
		var a *dispatch.Alarm
		s := &script{next: wakeIn(-1)}
		s.process = func(run int) error {
			if run == 1 {
				a.Fire(t.Context()) // asks for another run
				cancel()
				return ctx.Err()
			}
			return nil
		}
		a = dispatch.NewAlarm(s, p, nil)
		p.fire = func() { a.Fire(t.Context()) }
		if err := a.Fire(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Fire returned %v", err)
		}
		p.mu.Lock()
		sets := p.sets // it is due at once: it may have gone off already, and the next run may have cleared it
		p.mu.Unlock()
		if sets == 0 {
			t.Error("no alarm was set after a run that was broken off")
		}
		sleepFor(time.Minute)
		if n := s.count(); n < 2 {
			t.Errorf("%d runs: the alarm is dead", n)
		}
	})
}

func TestAlarmPlatformFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no alarms today")
		p := &platform{fail: broken}
		s := &script{name: "orders", next: wakeIn(time.Minute)}
		a := dispatch.NewAlarm(s, p, nil)
		for _, call := range []func(context.Context) error{a.Fire, a.Schedule, a.Fire} {
			if err := call(t.Context()); !errors.Is(err, broken) {
				t.Errorf("returned %v", err)
			}
		}
		p.fail = nil
		if err := a.Schedule(t.Context()); err != nil || p.in() != time.Minute {
			t.Errorf("%v, the alarm is set in %v", err, p.in())
		}
		p.ClearAlarm(t.Context())
	})
}

// A processor that ends its goroutine, as a test helper may, counts as a failed run.
func TestAlarmOutlivesGoexit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		s := &script{process: func(run int) error {
			if run == 1 {
				runtime.Goexit()
			}
			return nil
		}}
		told := 0
		a := dispatch.NewAlarm(s, p, func(error) { told++ })
		exited := make(chan struct{})
		go func() { defer close(exited); a.Fire(t.Context()) }()
		<-exited
		if told != 1 || p.in() <= 0 {
			t.Errorf("told %d times, the alarm is set in %v", told, p.in())
		}
		if err := a.Fire(t.Context()); err != nil || s.count() != 2 {
			t.Errorf("%v, %d runs after another fire", err, s.count())
		}
		p.ClearAlarm(t.Context())
	})
}

// A hostile platform misbehaves in its calls: it calls back, panics, or ends the goroutine.
type hostile struct {
	platform
	during func(a *dispatch.Alarm)
	a      *dispatch.Alarm
}

func (h *hostile) SetAlarm(ctx context.Context, in time.Duration) error {
	h.during(h.a)
	return h.platform.SetAlarm(ctx, in)
}

func (h *hostile) ClearAlarm(ctx context.Context) error {
	h.during(h.a)
	return h.platform.ClearAlarm(ctx)
}

func TestAlarmOutlivesItsPlatform(t *testing.T) {
	t.Parallel()
	for name, misbehave := range map[string]func(a *dispatch.Alarm){
		"fires":     func(a *dispatch.Alarm) { a.Fire(context.Background()) },
		"schedules": func(a *dispatch.Alarm) { a.Schedule(context.Background()) },
		"panics":    func(*dispatch.Alarm) { panic("no alarms today") },
		"exits":     func(*dispatch.Alarm) { runtime.Goexit() },
	} {
		for from, call := range map[string]func(*dispatch.Alarm,
			context.Context) error{"fire": (*dispatch.Alarm).Fire, "schedule": (*dispatch.Alarm).Schedule} {
			for what, next := range map[string]time.Duration{"set": time.Minute, "clear": -1} {
				t.Run(name+" in "+what+" by "+from, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := &hostile{}
						once := true
						h.during = func(a *dispatch.Alarm) {
							if once {
								once = false
								misbehave(a)
							}
						}
						s := &script{name: "orders", next: wakeIn(next)}
						h.a = dispatch.NewAlarm(s, h, nil)
						called := make(chan struct{})
						go func() { defer close(called); call(h.a, t.Context()) }()
						<-called
						runs := s.count()
						if err := h.a.Fire(t.Context()); err != nil || s.count() != runs+1 || h.platform.in() != next {
							t.Errorf("fired again: %v, %d runs after %d, the alarm is set in %v", err, s.count(), runs,
								h.platform.in())
						}
						h.platform.ClearAlarm(t.Context())
					})
				})
			}
		}
	}
}

// In whatever order calls come, the platform ends up with the earliest alarm.
func TestAlarmsThatAreSetAtOnceReachThePlatformInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hostile{}
		entered, release := make(chan struct{}), make(chan struct{})
		once := true
		h.during = func(*dispatch.Alarm) {
			if once {
				once = false
				close(entered)
				<-release
			}
		}
		a := dispatch.NewAlarm(&script{next: wakeIn(time.Hour, time.Second)}, h, nil)
		first := make(chan error)
		go func() { first <- a.Schedule(t.Context()) }()
		<-entered
		if err := a.Schedule(t.Context()); err != nil {
			t.Error(err)
		}
		close(release)
		if err := <-first; err != nil || h.platform.in() != time.Second {
			t.Errorf("%v, the alarm is set in %v", err, h.platform.in())
		}
		h.platform.ClearAlarm(t.Context())
	})
}
