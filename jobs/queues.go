package jobs

import (
	"cmp"
	"context"
	"math"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
)

// Limits bound a queue over all workers and processes. The zero value means no limits.
type Limits struct {
	// MaxRunning is how many jobs of the queue may be in progress at once; 0 means any number.
	MaxRunning int

	// Rate is how many jobs of the queue may be started in a second, on average; 0 means any number. Retries count,
	// too.
	Rate float64

	// Burst is how many jobs may be started at once after a quiet time. Default with a Rate: the jobs of one second,
	// at least 1.
	Burst int
}

func (l Limits) check() error {
	switch {
	case l.MaxRunning < 0 || l.MaxRunning > math.MaxInt32:
		return validate.Errorf("MaxRunning", "is %d, it must be 0 or more", l.MaxRunning)
	case l.Rate != 0 && !(l.Rate >= keyed.MinRate && l.Rate <= keyed.MaxRate):
		return validate.Errorf("Rate", "is %v, it must be 0, or %v to %v a second", l.Rate, keyed.MinRate, keyed.MaxRate)
	case l.Burst < 0 || l.Burst > math.MaxInt32:
		return validate.Errorf("Burst", "is %d, it must be 0 or more", l.Burst)
	case l.Burst > 0 && l.Rate == 0:
		return validate.Errorf("Burst", "needs a Rate")
	}
	return nil
}

func (l Limits) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return int(max(1, math.Ceil(min(l.Rate, math.MaxInt32))))
}

// Pause stops workers from claiming jobs of a queue, about half a second after tx commits at the latest. Running jobs
// go on, and so does enqueueing. Pausing a paused queue does nothing.
//
// Every claim obeys the rules of its queue, including claims through the low-level operations or the SQL function
// jobs_fetch.
func (c *Client) Pause(ctx context.Context, tx workqueue.Tx, queue string) error {
	return c.setPaused(ctx, tx, queue, true)
}

// Resume ends a pause. Workers go on as soon as tx has committed.
func (c *Client) Resume(ctx context.Context, tx workqueue.Tx, queue string) error {
	return c.setPaused(ctx, tx, queue, false)
}

func (c *Client) setPaused(ctx context.Context, tx workqueue.Tx, queue string, paused bool) error {
	if err := input.Name("queue", queue, MaxQueue); err != nil {
		return err
	}
	_, err := c.table.In(tx).Exec(ctx, c.statements.pauseQueue, queue, paused)
	return err
}

// SetLimits replaces the limits of a queue. The new limits apply as soon as tx commits; the first limits of a queue
// apply about half a second later. Jobs that are already running then are counted from the next sweep on, which a
// worker makes about once a second.
func (c *Client) SetLimits(ctx context.Context, tx workqueue.Tx, queue string, l Limits) error {
	if err := cmp.Or(input.Name("queue", queue, MaxQueue), l.check()); err != nil {
		return err
	}
	var running, rate, burst any
	if l.MaxRunning > 0 {
		running = l.MaxRunning
	}
	if l.Rate > 0 {
		rate, burst = l.Rate, l.burst()
	}
	_, err := c.table.In(tx).Exec(ctx, c.statements.limitQueue, queue, running, rate, burst)
	return err
}

// A QueueInfo is a queue's rules and the number of its jobs by state.
type QueueInfo struct {
	Name   string
	Paused bool
	Limits
	Ready      int64 // due now
	Scheduled  int64 // due later
	Waiting    int64 // held back, behind their key or until other jobs have ended
	InProgress int64
}

// Queues reads the queues that have a rule or a live job, in the byte order of their names. Its cost grows with the
// number of live jobs.
func (c *Client) Queues(ctx context.Context, tx workqueue.Tx) ([]QueueInfo, error) {
	var list []QueueInfo
	err := c.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var q QueueInfo
		err := scan(&q.Name, &q.Paused, &q.MaxRunning, &q.Rate, &q.Burst, &q.Ready, &q.Scheduled, &q.Waiting,
			&q.InProgress)
		list = append(list, q)
		return err
	}, c.statements.queues)
	return list, err
}
