package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/outage"
)

// DefaultPollInterval is how often a [Poll] looks when nobody wakes it. Notifications make it rarely
// matter; without them it is the longest that a new row waits.
const DefaultPollInterval = time.Second

// minIdlePause keeps a processor that did nothing, although it says that something is due, from spinning.
const minIdlePause = 10 * time.Millisecond

// PollOptions configure a [Poll]. The zero value is usable.
type PollOptions struct {
	// Interval is the longest time between two looks. Default: [DefaultPollInterval].
	Interval time.Duration
	// OnError is told of every failed run. A panic in it is contained. Default: nobody is told.
	OnError func(error)
}

// A Poll drives a [Processor] with a timer and with Wake: it runs it when the processor says that it is due, at every
// interval, and at once when woken. It never runs it twice at a time.
type Poll struct {
	processor Processor
	interval  time.Duration
	onError   func(error)
	wake      chan struct{}
}

// NewPoll makes a Poll; Run starts it.
func NewPoll(p Processor, o PollOptions) *Poll {
	if o.Interval <= 0 {
		o.Interval = DefaultPollInterval
	}
	return &Poll{processor: p, interval: o.Interval, onError: o.OnError, wake: make(chan struct{}, 1)}
}

// Wake asks for a run. Any number of calls during a run make exactly one more run. It never blocks and
// is safe for concurrent use, before, during and after Run.
func (d *Poll) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// A looker is a processor that can find out, for less than a run, whether a run would find something.
type looker interface {
	// Look reports whether a run would find something now and, if not, when one may. If woken fires before the answer
	// is there, Look returns early, and reports found.
	Look(ctx context.Context, woken <-chan struct{}) (found bool, next *Wake, err error)
	// RestUntilLook is how long it may rest when nothing is known to be due.
	RestUntilLook(interval time.Duration) time.Duration
}

// Run processes until ctx is cancelled, and then returns nil. Failed runs are reported and repeated
// after a growing pause, which is at most half a second where the run waited for a lock in vain.
func (d *Poll) Run(ctx context.Context) error {
	pause := outage.MinPause
	quiet := false // nothing was known to be due before this moment, and no wake has come
	for ctx.Err() == nil {
		n, next, err := d.lookOrRun(ctx, quiet)
		if err == nil {
			pause = outage.MinPause
			wait, nothingDue := d.restAfter(n, next)
			quiet = d.sleep(ctx, wait, d.wake) && nothingDue
			continue
		}
		quiet = false
		if ctx.Err() == nil {
			contain.Report(d.onError, fmt.Errorf("%s: %w", d.processor.Namespace(), err))
			d.sleep(ctx, pause, nil) // a wake does not shorten the pause: it stays in the channel
			pause = outage.Next(pause, err)
		}
	}
	return nil
}

// lookOrRun runs the processor. If all was quiet, a processor that can look does so first, and is run only if it finds
// something.
func (d *Poll) lookOrRun(ctx context.Context, quiet bool) (n int, next *Wake, err error) {
	if l, looks := d.processor.(looker); looks && quiet {
		found, next, err := lookSafely(ctx, l, d.wake)
		if err != nil || !found {
			return 0, next, err
		}
	}
	if n, err = processSafely(ctx, d.processor); err != nil {
		return 0, nil, err
	}
	next, err = nextWakeSafely(ctx, d.processor)
	return n, next, err
}

// restAfter is how long to rest after a run that did n things. nothingDue reports that nothing is known to be due
// before the end of the rest.
func (d *Poll) restAfter(n int, next *Wake) (wait time.Duration, nothingDue bool) {
	rest := d.rest()
	switch {
	case next == nil || next.In >= rest:
		return rest, true
	case n == 0 && next.In <= 0:
		return min(minIdlePause, d.interval), false
	}
	return max(next.In, 0), false
}

// rest is how long to rest when nothing is known to be due.
func (d *Poll) rest() time.Duration {
	if l, looks := d.processor.(looker); looks {
		return l.RestUntilLook(d.interval)
	}
	return d.interval
}

// sleep reports whether it slept to the end.
func (d *Poll) sleep(ctx context.Context, wait time.Duration, wake <-chan struct{}) (slept bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
		slept = true
	}
	return slept
}

func lookSafely(ctx context.Context, l looker, woken <-chan struct{}) (found bool, next *Wake, err error) {
	defer contain.Recover(&err)
	return l.Look(ctx, woken)
}
