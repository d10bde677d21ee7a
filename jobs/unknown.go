package jobs

import (
	"fmt"
	"sync"
	"time"

	"github.com/txwork/txwork/workqueue"
)

// Unknown says what a worker does with jobs of a kind that it has no handler for.
type Unknown uint8

const (
	// RetryUnknown makes the claim a failed attempt with [ErrUnknownKind]: the job is retried after its backoff, and
	// becomes a dead letter when its attempts are used up.
	RetryUnknown Unknown = iota

	// LeaveUnknown returns the jobs for workers that have a handler, and does not count the attempt, so they never fail
	// here. They are due again after some seconds. If there are many, the delay grows, so that a worker claims no more
	// than about a hundred of them a second.
	LeaveUnknown
)

func (w *Worker) unknown(d *Delivery) error {
	if w.options.Unknown == LeaveUnknown {
		return workqueue.Snooze(w.unknowns.delay(time.Now()))
	}
	return fmt.Errorf("%w: no handler is registered for %q", ErrUnknownKind, d.Kind)
}

const (
	// minUnknownDelay is the shortest time for which a job of an unknown kind is put off.
	minUnknownDelay = 5 * time.Second
	// unknownEvery is the time between the due times of two such jobs.
	unknownEvery = 10 * time.Millisecond
	// maxUnknownDelay bounds how long a job may wait after a worker with a handler for it has started.
	maxUnknownDelay = 24 * time.Hour
)

// putOff spreads the due times of the jobs that a worker returns because it has no handler for their kind. Otherwise
// many of them would be due together, again and again, ahead of jobs that can be done.
type putOff struct {
	mu   sync.Mutex
	last time.Time // the latest due time so far
}

func (u *putOff) delay(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	next := u.last.Add(unknownEvery)
	if soonest := now.Add(minUnknownDelay); next.Before(soonest) {
		next = soonest
	}
	if latest := now.Add(maxUnknownDelay); next.After(latest) {
		next = latest
	}
	u.last = next
	return next.Sub(now)
}
