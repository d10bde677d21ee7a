package workqueue

import (
	"context"
	"time"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A notification names a table and not a lane, because the trigger that sends it does not read the rows. If many
// workers of a process serve a table, one of them has a row to claim, and the claims of the others would find nothing.
// So the process looks once for all of them, see sql/look.sql, and wakes only the workers that have something to claim.

// sharedLookFrom is the number of workers from which a look that is followed by a claim is worthwhile. Fewer workers
// claim side by side, which is faster.
const sharedLookFrom = 4

// sharedLookLimits are the limits of the look. While the look fails, all workers are woken, as if there were no look.
var sharedLookLimits = conn.Limits{Lock: 20 * time.Millisecond, Statement: 250 * time.Millisecond}

// lookForAll looks once for all notifications that have arrived, and again if more have arrived in the meantime.
func (t *tableWork) lookForAll() {
	for {
		t.mu.Lock()
		t.looking, t.lookAgain = t.lookAgain, false
		more, workers := t.looking, t.hearing
		t.mu.Unlock()
		if !more {
			return
		}
		t.wakeFound(workers)
	}
}

// wakeFound wakes those of the workers for which a look has found a row.
func (t *tableWork) wakeFound(workers []*Worker) {
	if len(workers) == 0 {
		return
	}
	looks := make([]*look, len(workers))
	for i, w := range workers {
		looks[i] = &look{work: t, lanes: w.claimer.peek()}
	}
	ex := poolExecutor{conn.Pool{Conns: t.system.pool, Limits: sharedLookLimits, Slots: t.system.taker(t.table)}}
	ctx, cancel := context.WithTimeout(context.Background(), minCallTimeout)
	defer cancel()
	if err := runSafely(ctx, ex, lookCall(looks)); err != nil {
		wakeAll(workers)
		return
	}
	for i, k := range looks {
		w := workers[i]
		if k.found || k.next != nil && k.next.In < w.system.restUntilLook(w.options.PollInterval) {
			w.poll.Wake()
		}
	}
}

// peek returns where the next claim would begin.
func (c *claimer) peek() []claimLane {
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := make([]claimLane, len(c.lanes))
	for i, l := range c.lanes {
		lanes[i] = claimLane{values: l.values, after: l.cursor}
	}
	return lanes
}
