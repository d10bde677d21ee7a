package reaper

import (
	"context"
	"log/slog"
	"time"
)

const (
	// firstRetry is the pause after a first failure: long enough for a connection to be re-made.
	firstRetry = time.Second

	// jitter is the share of a pause that is left to chance.
	jitter = 0.2
)

// A pace says when a turn wants the next one.
type pace struct {
	again  bool          // at once
	within time.Duration // if positive, in this time at the latest
}

// A loop takes turns until its context ends. It knows nothing of databases.
type loop struct {
	interval time.Duration
	random   func() float64 // from [0, 1)
	logger   *slog.Logger
	turn     func(context.Context) (pace, error)
	outage   func(error) bool // is told how a turn ended, and whether that has been logged
}

func (l loop) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		p, err := l.turn(ctx)
		if ctx.Err() != nil {
			return // what a turn says that was interrupted means nothing
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

// backoff doubles from firstRetry up to the interval: at that rate the loop looks anyway.
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
