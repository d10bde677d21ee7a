package workqueue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// A claimer claims from a worker's lanes. In each lane it has a cursor and continues after the last row that it claimed
// there. So it reads neither the rows in flight nor the dead index entries at the head of the claim index, which a long
// transaction keeps from being removed.
//
// The cursors are only an optimisation. A row may appear behind one: because it was committed late, is due in the past,
// or was returned with its due time unchanged. A notification moves the cursors back to it. A claim from the start,
// which is a sweep of the lanes, finds the rows that no notification announced. The more it costs, which grows with the
// dead entries, the longer is the time to the next one. The sweeps of a table ([Spec].Sweeps) are something else: they
// are upkeep, and change rows.
//
// claim, look and nextWake are called by one goroutine only.
type claimer struct {
	queue  *Queue
	lease  time.Duration
	target func(*Columns) any
	rule   rule // of its lanes
	topics topicState
	clock  *dbClock

	askedDue *time.Time // when the next due time was last asked for, by the database's clock
	answer   *dueAnswer // the answer that came with the last claim, until it is read; nil: there is none
	asksDue  bool       // the next claim is to ask for the next due time, because the last claim came short
	turn     int        // claims so far
	refused  bool       // the rule admitted nothing to the last claim
	more     bool       // the last claim may have left rows, although it came short

	mu            sync.Mutex
	lanes         []*lane
	nextSweep     time.Time // of the lanes
	sweepEvery    time.Duration
	lastSweepTook time.Duration
	unswept       bool // rows may have been passed over since the last complete sweep
}

// A lane is one of the lanes that a worker serves, with the place that its claims have reached.
type lane struct {
	values   []any
	label    string // its name in fronts; empty: it has no front
	cursor   position
	notified position // the earliest place that was announced since the current claim began; zero: none
	front    front
}

func newLane(t *Table, values []any) *lane {
	return &lane{values: values, label: t.laneLabel(values), front: front{laneStart, time.Now()}}
}

// A dueAnswer says when the next row is due. next is nil if no such row is known.
type dueAnswer struct {
	next *dispatch.Wake
	at   time.Time // of the answer, by this machine's clock
}

// newClaimer makes the claimer of an engine's lanes, the most urgent first.
func newClaimer(e *engine) *claimer {
	c := &claimer{queue: e.queue, lease: e.handling.Lease, target: e.target, clock: e.dbClock}
	c.topics.flow = e.flow
	for _, values := range e.lanes {
		c.lanes = append(c.lanes, newLane(e.table, values))
	}
	if len(c.lanes) == 0 {
		c.lanes = []*lane{newLane(e.table, nil)} // a table without lanes counts as one lane
	}
	return c
}

// claim takes up to limit rows. If it returns fewer, this claimer knows of no more.
func (c *claimer) claim(ctx context.Context, limit int) ([]*claimedRow, error) {
	lanes := c.order()
	start := time.Now()
	cursors, swept := c.begin(start, lanes)
	req := claimRequest{owner: NewOwnerToken(), lease: c.lease, limit: limit, lanes: cursors, target: c.target}
	if c.asksDue {
		req.due = c.question()
	}
	rows, err := c.ask(ctx, &req)
	if err != nil {
		return nil, err
	}
	full := len(rows) == req.limit
	if req.topics != nil {
		full = req.topics.more
	}
	c.more = full
	if c.refused = req.refused(); c.refused {
		c.stay()
	} else {
		c.advance(lanes, req.topics.places(rows), swept, full, time.Since(start))
	}
	c.learn(req.due, start)
	c.asksDue = !full
	return rows, nil
}

// refused reports that the rule admitted no row: the claim has looked at no lane.
func (r *claimRequest) refused() bool { return r.rule != nil && r.rule.admitted < 1 }

// stay leaves the cursors and fronts where they are, because a claim that was refused says nothing about the rows that
// are there. The fronts stay current.
func (c *claimer) stay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, l := range c.lanes {
		l.front.at = now
		l.moveBack(l.notified)
	}
}

// begin returns where a claim begins in each lane, and whether it is a sweep.
func (c *claimer) begin(now time.Time, lanes []*lane) (cursors []claimLane, sweep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.notified = position{}
	}
	sweep = !now.Before(c.nextSweep)
	cursors = make([]claimLane, len(lanes))
	for i, l := range lanes {
		cursors[i].values = l.values
		if !sweep {
			cursors[i].after = l.cursor
		}
	}
	return cursors, sweep
}

// advance moves the cursors to the last rows of a claim. A full claim may have left rows.
func (c *claimer) advance(lanes []*lane, rows []*claimedRow, swept, full bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if swept {
		cost := min(took, c.lastSweepTook) // one may be slow by accident, such as by a reconnect
		c.lastSweepTook = took
		c.sweepEvery = min(max(sweepShare*cost, minSweepInterval), maxSweepInterval)
		c.nextSweep = time.Now().Add(c.sweepEvery)
	}
	c.unswept = !swept || full
	for _, row := range rows {
		lanes[row.lane].cursor = position{row.DueAt, row.ID}
	}
	moveFronts(lanes, rows, full, c.clock.of(time.Now().Add(-took)))
	for _, l := range c.lanes {
		l.moveBack(l.notified)
	}
}

// rewind moves the cursors back so that the next claim sees rows due at that time. A claim under way may
// have read its snapshot before they were committed, so it does not move a cursor past them again.
func (c *claimer) rewind(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.rewind(due)
	}
}

func (l *lane) rewind(due time.Time) {
	p := position{due: due}
	if l.notified.isStart() || p.before(l.notified) {
		l.notified = p
	}
	l.moveBack(p)
}

func (l *lane) moveBack(p position) {
	if !p.isStart() && p.before(l.cursor) {
		l.cursor = p
	}
}

// beginAtStart makes the next claim one from the start.
func (c *claimer) beginAtStart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSweep = time.Time{}
}

// startOver makes the next claim one from the start that asks for nothing else: after it a drain claims again or ends.
func (c *claimer) startOver() {
	c.beginAtStart()
	c.asksDue = false
}

// nextWake returns when the next row of any lane is due, when a sweep may find what a cursor has passed over, or when
// the rule of its lanes is to be asked again, whichever is first.
func (c *claimer) nextWake(ctx context.Context) (*dispatch.Wake, error) {
	next, err := c.nextDue(ctx)
	if err != nil {
		return nil, err
	}
	return c.withOwn(next), nil
}

// withOwn returns next, or an earlier wake for which the claimer has a reason of its own: a sweep, the rule of its
// lanes, or the end of a topic's rest. While the rule admits nothing, a sweep would find nothing.
func (c *claimer) withOwn(next *dispatch.Wake) *dispatch.Wake {
	if in := c.sweepDue(); in >= 0 && !c.refused {
		next = earlier(next, &dispatch.Wake{In: max(in, sweepPause)})
	}
	if in := c.rule.due(); in >= 0 {
		next = earlier(next, &dispatch.Wake{In: in})
	}
	if in := c.topics.due(); in >= 0 {
		next = earlier(next, &dispatch.Wake{In: in})
	}
	return next
}

// earlier is the first of two wakes, of which either may be missing.
func earlier(a, b *dispatch.Wake) *dispatch.Wake {
	if a == nil || b != nil && b.In < a.In {
		return b
	}
	return a
}

// nextDue returns when the next row is due. Mostly the last claim has asked that already, which saves a transaction.
func (c *claimer) nextDue(ctx context.Context) (*dispatch.Wake, error) {
	if c.answer == nil {
		d, start := c.question(), time.Now()
		if err := c.queue.nextDue(ctx, d); err != nil {
			return nil, err
		}
		c.learn(d, start)
	}
	next, since := c.answer.next, time.Since(c.answer.at)
	c.answer = nil
	if next != nil {
		next.In -= since
	}
	return next, nil
}

// question asks about rows from the time of the last answer on. So there is no gap between the rows that a claim sees
// and those that the question sees.
func (c *claimer) question() *dueQuestion {
	d := &dueQuestion{since: c.askedDue}
	for _, l := range c.lanes {
		d.lanes = append(d.lanes, l.values)
	}
	return d
}

// learn stores the answer to a question that was sent at the given time.
func (c *claimer) learn(d *dueQuestion, start time.Time) {
	c.answer = nil
	if d != nil {
		now := time.Now()
		c.askedDue, c.answer = &d.asked, &dueAnswer{d.next, now}
		c.clock.read(start, now, d.asked)
	}
}

// sweepDue tells how long until a sweep may find what the cursor has passed over; negative: it has
// passed over nothing.
func (c *claimer) sweepDue() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unswept {
		return -1
	}
	return max(time.Until(c.nextSweep), 0)
}

// order returns the lanes in the order in which the next claim reads them.
func (c *claimer) order() []*lane {
	c.turn++
	others := len(c.lanes) - 1
	if others == 0 || c.turn%fairEvery != 0 {
		return c.lanes
	}
	first := others - c.turn/fairEvery%others // from the least urgent one up
	return append([]*lane{c.lanes[first]}, slices.Delete(slices.Clone(c.lanes), first, first+1)...)
}
