package reaper

import (
	"context"
	"log/slog"
	"time"
)

const (
	// firstRetry is the pause after a first failure: long enough to open a new connection.
	firstRetry = time.Second

	// jitter is the share of a pause that is random.
	jitter = 0.2
)

// A pace says when the next turn should start.
type pace struct {
	again  bool          // at once
	within time.Duration // within this time, if positive
}

// A loop takes turns until its context ends. It does not depend on a database.
type loop struct {
	interval time.Duration
	random   func() float64 // from [0, 1)
	logger   *slog.Logger
	turn     func(context.Context) (pace, error)
	outage   func(error) bool // receives the result of every turn; true if it has logged the error
}

func (l loop) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		p, err := l.turn(ctx)
		if ctx.Err() != nil {
			return // the result of an interrupted turn is meaningless
		}
		told := l.outage(err)
		pause := l.pause(p)
		if err != nil {
			failures++
			pause = l.backoff(failures)
		} else {
			failures = 0
		}
		if err != nil && !told {
			l.logger.ErrorContext(ctx, "reaper round failed", "error", err, "failures", failures, "retry_in", pause)
		}
		sleep(ctx, pause)
	}
}

func (l loop) pause(p pace) time.Duration {
	switch {
	case p.again:
		return 0
	case p.within > 0:
		return min(l.spread(l.interval), max(p.within, MinInterval))
	}
	return l.spread(l.interval)
}

// backoff doubles from firstRetry up to the interval, which is how often the loop takes turns anyway.
func (l loop) backoff(failures int) time.Duration {
	const maxDoublings = 20 // keeps the shift from overflowing
	return l.spread(min(l.interval, firstRetry<<min(failures-1, maxDoublings)))
}

func (l loop) spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter*l.random()))
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
