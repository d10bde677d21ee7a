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
	// RetryUnknown takes them for failed attempts, with [ErrUnknownKind]: they come back by their backoff, and
	// are dead letters when their attempts are used up.
	RetryUnknown Unknown = iota

	// LeaveUnknown puts them back for workers that know the kind and gives the attempt back: they never fail
	// here. They come again after some seconds; where there are many, after so long that a worker spends no
	// more than a hundred or so a second of its claims on them, however many there are.
	LeaveUnknown
)

func (w *Worker) unknown(d *Delivery) error {
	if w.options.Unknown == LeaveUnknown {
		return workqueue.Snooze(w.unknowns.delay(time.Now()))
	}
	return fmt.Errorf("%w: no handler is registered for %q", ErrUnknownKind, d.Kind)
}

const (
	// minUnknownDelay is how long a job of an unknown kind is put off at least.
	minUnknownDelay = 5 * time.Second
	// unknownEvery is the time between two of them.
	unknownEvery = 10 * time.Millisecond
	// maxUnknownDelay bounds how long a job may wait although a worker that knows it has come.
	maxUnknownDelay = 24 * time.Hour
)

// putOff spreads in time the jobs that a worker puts back because it has no handler for their kind. Many of them would
// otherwise come back at once, again and again, before jobs that can be done.
type putOff struct {
	mu   sync.Mutex
	last time.Time // when the last of them comes again
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
