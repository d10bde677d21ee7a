package workqueue

import (
	"context"
	"time"
)

// A notification tells of a table and not of a lane: the trigger that sends it does not read the rows. Where many
// workers of a process serve a table, one of them has a row to claim, and the claims of the others would be in vain. So
// the process looks once for all of them, see sql/look.sql, and wakes those for which there is something.

// siftFrom is from how many workers on a look and a claim, one after the other, are worth it: fewer claim side by side,
// which is sooner.
const siftFrom = 4

// siftLimits are those of the look. While it fails, workers are woken as if there were none.
var siftLimits = TxLimits{Lock: 20 * time.Millisecond, Statement: 250 * time.Millisecond}

// wakeConcerned wakes the workers that listen and may have something to claim, after a notification. It never blocks.
func (t *tableWork) wakeConcerned() {
	workers := t.listening()
	if len(workers) < siftFrom {
		wakeAll(workers)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsifted = true
	if !t.sifting {
		t.sifting = true
		t.sifters.Go(t.sift)
	}
}

// sift looks once for all notifications that have come before, and again for those that come meanwhile.
func (t *tableWork) sift() {
	for {
		t.mu.Lock()
		t.sifting, t.unsifted = t.unsifted, false
		more, workers := t.sifting, t.hearing
		t.mu.Unlock()
		if !more {
			return
		}
		t.siftFor(workers)
	}
}

func (t *tableWork) siftFor(workers []*Worker) {
	if len(workers) == 0 {
		return
	}
	looks := make([]*look, len(workers))
	for i, w := range workers {
		looks[i] = &look{work: t, lanes: w.claimer.peek()}
	}
	ex := poolExecutor{pool: t.system.pool, limits: siftLimits, slots: t.system.taker(t.table)}
	ctx, cancel := context.WithTimeout(context.Background(), minCallLimit)
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

func wakeAll(workers []*Worker) {
	for _, w := range workers {
		w.poll.Wake()
	}
}

// peek tells where the next claim would begin.
func (c *claimer) peek() []claimLane {
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := make([]claimLane, len(c.lanes))
	for i, l := range c.lanes {
		lanes[i] = claimLane{values: l.values, after: l.cursor}
	}
	return lanes
}
