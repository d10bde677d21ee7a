package jobs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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

	// LeaveUnknown returns the jobs for workers that have a handler, and counts neither an attempt nor a start, so they
	// never fail here, and use up no rate. They are due again after some seconds. If there are many, the delay grows,
	// so that a worker claims no more than about a hundred of them a second. Their last error says since when they have
	// been returned, and is a finding of the doctor if no worker takes them. Each kind is logged at most once a minute.
	LeaveUnknown
)

// leaves leaves a job of an unknown kind before it starts. Middleware sees every job, so it starts all.
func (w *Worker) leaves(ctx context.Context, c *workqueue.Claim[Delivery]) error {
	if len(w.wrappers) > 0 || w.options.Registry.find(c.Body.Kind).handle != nil {
		return nil
	}
	c.Body.ID = c.ID
	return w.unknown(ctx, &c.Body)
}

func (w *Worker) unknown(ctx context.Context, d *Delivery) error {
	err := fmt.Errorf("%w: no handler is registered for %q", ErrUnknownKind, d.Kind)
	if w.options.Unknown != LeaveUnknown {
		return err
	}
	delay, logs := w.unknowns.leave(d.Kind, time.Now())
	if logs {
		cmp.Or(w.client.options.Telemetry.Logger, slog.Default()).WarnContext(ctx,
			"jobs of a kind without a handler here are left to other workers", "table", w.client.table.Name(), "kind", d.Kind,
			"queue", d.Queue, "id", d.ID)
	}
	return workqueue.LeaveFor(delay, err)
}

const (
	// minUnknownDelay is the shortest time for which a job of an unknown kind is put off.
	minUnknownDelay = 5 * time.Second
	// unknownEvery is the time between the due times of two such jobs.
	unknownEvery = 10 * time.Millisecond
	// maxUnknownDelay bounds how long a job may wait after a worker with a handler for it has started.
	maxUnknownDelay = 24 * time.Hour
	// logUnknownEvery is the time between two log lines about a kind.
	logUnknownEvery = time.Minute
	// maxUnknownLogged bounds the kinds that are remembered.
	maxUnknownLogged = 1000
)

// putOff spreads the due times of the jobs that a worker returns because it has no handler for their kind. Otherwise
// many of them would be due together, again and again, ahead of jobs that can be done.
type putOff struct {
	mu     sync.Mutex
	last   time.Time            // the latest due time so far
	logged map[string]time.Time // when each kind was logged
}

// leave returns for how long to put off a job of a kind, and whether to log it.
func (u *putOff) leave(kind string, now time.Time) (delay time.Duration, logs bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if logs = now.Sub(u.logged[kind]) >= logUnknownEvery; logs {
		if u.logged == nil || len(u.logged) >= maxUnknownLogged {
			u.logged = map[string]time.Time{}
		}
		u.logged[kind] = now
	}
	return u.delay(now), logs
}

func (u *putOff) delay(now time.Time) time.Duration {
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
