package workqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// An AlarmClock is a platform's single alarm: setting it replaces the one that is set.
type AlarmClock interface {
	SetAlarm(ctx context.Context, in time.Duration) error
	ClearAlarm(ctx context.Context) error
}

// An Alarm drives a [Processor] on a platform that calls it back when an alarm goes off and otherwise
// lets it sleep: call Fire from the platform's alarm handler and Schedule after work was enqueued.
type Alarm struct {
	processor Processor
	clock     AlarmClock
	onError   func(error)

	mu      sync.Mutex
	running bool
	again   bool      // Fire was called during a run
	armed   time.Time // when the set alarm goes off by this process's clock; zero: none is set
}

// NewAlarm makes an Alarm. onError, if set, is told of every failed run; a panic in it is contained.
func NewAlarm(p Processor, clock AlarmClock, onError func(error)) *Alarm {
	return &Alarm{processor: p, clock: clock, onError: onError}
}

// Fire processes what is due and sets the next alarm. Calls during a run return at once and make
// exactly one more run. After a failed run the alarm is set all the same, after a pause.
func (a *Alarm) Fire(ctx context.Context) error {
	if !a.begin() {
		return nil
	}
	for {
		err := a.runOnce(ctx)
		if !a.repeat() {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(err, a.handBack(ctx))
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

// handBack ends a Fire that was asked for another run and has no time for it: the platform calls again.
func (a *Alarm) handBack(ctx context.Context) error {
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	return a.arm(context.WithoutCancel(ctx), 0)
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

// failed reports an error and has the platform call again after a pause, also where it was the end of
// ctx that made the run fail.
func (a *Alarm) failed(ctx context.Context, err error) error {
	err = fmt.Errorf("%s: %w", a.processor.Namespace(), err)
	reportError(a.onError, err)
	if armErr := a.arm(context.WithoutCancel(ctx), maxErrorPause); armErr != nil {
		reportError(a.onError, armErr)
	}
	return err
}

// lostAlarm is how long an alarm that has gone off may take to call Fire. After that it counts as lost.
const lostAlarm = 10 * time.Second

// Schedule sets the alarm to the processor's next wake. An alarm that is set already is never put off.
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
	defer a.mu.Unlock()
	at := time.Now().Add(in)
	if !a.armed.IsZero() && !at.Before(a.armed) && time.Since(a.armed) < lostAlarm {
		return nil
	}
	if err := a.clock.SetAlarm(ctx, in); err != nil {
		return fmt.Errorf("%s: setting the alarm: %w", a.processor.Namespace(), err)
	}
	a.armed = at
	return nil
}

// clear removes the alarm when nothing is left to do; an alarm that is still set stays: it costs one
// empty run, and removing it could lose work that was enqueued in between.
func (a *Alarm) clear(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.armed.IsZero() {
		return nil
	}
	if err := a.clock.ClearAlarm(ctx); err != nil {
		return fmt.Errorf("%s: clearing the alarm: %w", a.processor.Namespace(), err)
	}
	return nil
}
