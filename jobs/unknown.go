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
		return workqueue.Snooze(w.strangers.delay(time.Now()))
	}
	return fmt.Errorf("%w: no handler is registered for %q", ErrUnknownKind, d.Kind)
}

const (
	// strangerDelay is when a job of an unknown kind comes again at the earliest.
	strangerDelay = 5 * time.Second
	// strangerEvery spreads them: each comes so long after the one before.
	strangerEvery = 10 * time.Millisecond
	// maxStrangerDelay bounds how long a job may wait although a worker that knows it has come.
	maxStrangerDelay = 24 * time.Hour
)

// strangers spread in time what a worker puts back because it does not know the kind: a crowd of such jobs
// would otherwise come again all at once, for ever, in front of jobs that can be done.
type strangers struct {
	mu   sync.Mutex
	last time.Time // when the last of them comes again
}

func (s *strangers) delay(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.last.Add(strangerEvery)
	if soonest := now.Add(strangerDelay); next.Before(soonest) {
		next = soonest
	}
	if latest := now.Add(maxStrangerDelay); next.After(latest) {
		next = latest
	}
	s.last = next
	return next.Sub(now)
}
