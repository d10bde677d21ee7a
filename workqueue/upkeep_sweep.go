package workqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/txwork/txwork/internal/postgres"
)

const (
	// sweepLimit bounds the rows that one sweep changes, and with it how long it holds locks.
	sweepLimit = 1000
	// sweepAtLeastEvery is the pause between sweeps that cost little: how long a change that only a sweep makes may
	// wait.
	sweepAtLeastEvery = time.Second
	// sweepEmptyEvery is the pause for a table in which every row has ended, so that nothing waits for a sweep.
	sweepEmptyEvery = 15 * time.Second
)

// runSweeps calls the table's sweeps until ctx is cancelled, unless another process does. It does so every second, or
// less often if the sweeps would use more than a bounded share of the time. It has a goroutine of its own, so that
// claims do not wait for the locks that a sweep waits for.
func (t *tableWork) runSweeps(ctx context.Context) {
	var pause time.Duration
	var swept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-t.elected:
		}
		if t.refused.Load() && !t.fit() {
			pause = sweepEmptyEvery
			continue
		}
		start := time.Now()
		due := start.Sub(swept) >= sweepEmptyEvery
		leads, live := t.leads.Load(), false
		switch {
		case !leads:
			leads, live = t.standIfFree(ctx)
		case !due:
			live = t.anyLive(ctx)
		}
		if !leads {
			pause = sweepEmptyEvery
			continue
		}
		n := 0
		if live || due {
			swept, n = start, t.sweepOnce(ctx)
		}
		pause = min(max(sweepShare*time.Since(start), sweepAtLeastEvery), maxSweepInterval)
		if n > 0 { // there may be more, and rows may have become claimable
			pause = sweepAtLeastEvery / 10
			for _, w := range t.claiming() {
				w.claimer.beginAtStart()
				w.poll.Wake()
			}
		}
	}
}

// sweepOnce sweeps. If that fails, it lets other processes try.
func (t *tableWork) sweepOnce(ctx context.Context) (n int) {
	err := t.within(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		n, err = t.swept.Sweep(ctx, sweepLimit)
		return err
	})
	if err != nil {
		if !t.leaves(err) {
			logError(t.table.telemetry.Logger(), err)
		}
		t.stepDown()
	} else {
		t.refused.Store(false)
	}
	return n
}

// leaves reports whether an error says that the role may not do a table's work of which all processes have a part: it
// lacks a privilege, or row-level security hides rows from it. The work is then left to other processes, which is
// logged once.
func (t *tableWork) leaves(err error) bool {
	if !postgres.IsForbidden(err) {
		return false
	}
	if !t.refused.Swap(true) {
		t.table.telemetry.Log(context.Background(), slog.LevelWarn, "the role may not fold and sweep this "+
			"table: that is left to processes whose roles see all of its rows and have all rights on them",
			slog.String("table", t.table.Name()), slog.Any("error", err))
	}
	return true
}

// anyLive reports whether there are rows that have not ended. If the database does not answer, there may be.
func (t *tableWork) anyLive(ctx context.Context) (live bool) {
	err := t.within(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		live, err = t.swept.anyLive(ctx)
		return err
	})
	return live || err != nil
}
