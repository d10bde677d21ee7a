package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
)

// An AlarmClock is a platform's single alarm: setting it replaces the one that is set.
type AlarmClock interface {
	SetAlarm(ctx context.Context, in time.Duration) error
	ClearAlarm(ctx context.Context) error
}

// An Alarm drives a [Processor] on a platform that calls it back when an alarm goes off and otherwise
// lets it sleep: call Fire from the platform's alarm handler and Schedule after work was enqueued. Both may be called
// at any time and from anywhere, also by the platform from within SetAlarm and ClearAlarm, which are never called
// two at a time.
type Alarm struct {
	processor Processor
	name      string
	clock     AlarmClock
	onError   func(error)

	mu      sync.Mutex // not held while foreign code runs
	running bool
	again   bool      // Fire was called during a run
	armed   time.Time // when the set alarm goes off by this process's clock; zero: none is set

	telling bool            // a call is bringing the platform's alarm in line with armed
	untold  context.Context // of the last call that changed armed; nil: the platform has been told
}

// NewAlarm makes an Alarm. onError, if set, is told of every failed run; a panic in it is contained.
func NewAlarm(p Processor, clock AlarmClock, onError func(error)) *Alarm {
	return &Alarm{processor: p, name: p.Namespace(), clock: clock, onError: onError}
}

// Fire processes what is due and sets the next alarm. Calls during a run return at once and make
// exactly one more run. After a failed run the alarm is set all the same, after a pause; a run that panics or ends its
// goroutine (runtime.Goexit) has failed.
func (a *Alarm) Fire(ctx context.Context) error {
	if !a.begin() {
		return nil
	}
	returned := false
	defer func() {
		if !returned { // runtime.Goexit
			a.stop()
			_ = a.failed(ctx, errors.New("the processor ended its goroutine (runtime.Goexit)"))
		}
	}()
	err := a.run(ctx)
	returned = true
	return err
}

func (a *Alarm) run(ctx context.Context) error {
	for {
		err := a.runOnce(ctx)
		if !a.repeat() {
			return err
		}
		if ctx.Err() != nil { // no time for another run: the platform calls again
			a.stop()
			return errors.Join(err, a.arm(context.WithoutCancel(ctx), 0))
		}
	}
}

func (a *Alarm) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running {
		a.again = true
		return false
	}
	a.running = true
	return true
}

func (a *Alarm) repeat() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	again := a.again
	a.again, a.running = false, again
	return again
}

func (a *Alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again, a.running = false, false
}

func (a *Alarm) runOnce(ctx context.Context) error {
	a.mu.Lock()
	a.armed = time.Time{} // the alarm that called us has gone off
	a.mu.Unlock()
	_, err := processSafely(ctx, a.processor)
	if err == nil {
		return a.Schedule(ctx)
	}
	return a.failed(ctx, err)
}

// failed reports an error and makes the platform call again after a pause, even if the run failed because ctx ended.
func (a *Alarm) failed(ctx context.Context, err error) error {
	err = fmt.Errorf("%s: %w", a.name, err)
	contain.Report(a.onError, err)
	if armErr := a.arm(context.WithoutCancel(ctx), outage.MaxPause); armErr != nil {
		contain.Report(a.onError, armErr)
	}
	return err
}

// lostAlarm is how long an alarm that has gone off may take to call Fire. After that it counts as lost.
const lostAlarm = 10 * time.Second

// Schedule sets the alarm to the processor's next wake. An alarm that is set already is never put off. If another call
// is talking to the platform at that moment, that call sets the alarm, and returns the error if this fails.
func (a *Alarm) Schedule(ctx context.Context) error {
	next, err := nextWakeSafely(ctx, a.processor)
	if err != nil {
		return a.failed(ctx, err)
	}
	if next == nil {
		return a.clear(ctx)
	}
	return a.arm(ctx, max(next.In, 0))
}

func (a *Alarm) arm(ctx context.Context, in time.Duration) error {
	a.mu.Lock()
	at := time.Now().Add(in)
	if !a.armed.IsZero() && !at.Before(a.armed) && time.Since(a.armed) < lostAlarm {
		a.mu.Unlock()
		return nil
	}
	a.armed, a.untold = at, ctx
	a.mu.Unlock()
	return a.tell()
}

// clear removes the alarm when nothing is left to do; an alarm that is still set stays: it costs one
// empty run, and removing it could lose work that was enqueued in between.
func (a *Alarm) clear(ctx context.Context) error {
	a.mu.Lock()
	if !a.armed.IsZero() {
		a.mu.Unlock()
		return nil
	}
	a.untold = ctx
	a.mu.Unlock()
	return a.tell()
}

// tell tells the platform what armed says, and repeats that if armed has changed in the meantime. If another call is
// doing so already, tell leaves it to that call. Two calls could reach the platform in the wrong order. Waiting for the
// other would never end if the platform calls from within its own SetAlarm or ClearAlarm.
func (a *Alarm) tell() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.telling {
		return nil
	}
	a.telling = true
	defer func() { a.telling = false }()
	var err error
	for a.untold != nil {
		ctx, at := a.untold, a.armed
		a.untold = nil
		err = a.callPlatform(ctx, at)
	}
	return err
}

// callPlatform is called with the mutex held, and releases it for the call. An alarm that could not be set counts as
// not set.
func (a *Alarm) callPlatform(ctx context.Context, at time.Time) (err error) {
	set := false
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		if !set && a.armed.Equal(at) {
			a.armed = time.Time{}
		}
	}()
	if err = a.setAlarm(ctx, at); err != nil {
		return fmt.Errorf("%s: setting the alarm: %w", a.name, err)
	}
	set = true
	return nil
}

func (a *Alarm) setAlarm(ctx context.Context, at time.Time) (err error) {
	defer contain.Recover(&err)
	if at.IsZero() {
		return a.clock.ClearAlarm(ctx)
	}
	return a.clock.SetAlarm(ctx, max(time.Until(at), 0))
}
