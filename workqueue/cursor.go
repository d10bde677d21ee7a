package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// Bounds of the time between two sweeps, and the share of its time that a claimer spends on them.
const (
	minSweepInterval = 10 * time.Millisecond
	maxSweepInterval = time.Minute
	sweepShare       = 40 // one part in 40

	// sweepPause is how long a claimer rests at least if there is nothing to do but sweep: after a row that came alone,
	// the sweep would cost as much again as its claim.
	sweepPause = 250 * time.Millisecond
)

// A claimer claims from a worker's lanes, in each behind a cursor: it goes on after the last row that it claimed
// there, so that it reads neither the rows in flight nor the dead index entries which stand at the head of
// the claim index, and which a long transaction keeps there.
//
// The cursors are an optimisation and nothing else. A row may appear behind one: committed late, due in the
// past, or returned without moving. A notification moves them back to it; a sweep from the start
// finds whatever no notification told of. The cost of a sweep, which grows with the dead entries,
// stretches the time to the next one.
//
// claim, look and nextWake are called by one goroutine only.
type claimer struct {
	queue  *Queue
	lease  time.Duration
	target func() (any, []any)
	rule   *rule // of its lanes
	clock  *dbClock

	askedDue *time.Time // when the next due time was last asked for, by the database's clock
	answer   *dueAnswer // what came with the last claim, until it is read; nil: nothing
	asks     bool       // the next claim is to ask: the last one came short, and the next may
	turn     int        // claims so far

	mu            sync.Mutex
	lanes         []*lane
	nextSweep     time.Time
	sweepEvery    time.Duration
	lastSweepTook time.Duration
	unswept       bool // rows may have been passed over since the last complete sweep
}

// A lane is one that a worker serves.
type lane struct {
	values   []any
	label    string // in fronts; empty: it has none
	cursor   position
	notified position // the earliest place notified of since the current claim began; zero: none
	front    front
}

func newLane(t *Table, values []any) *lane {
	return &lane{values: values, label: t.laneLabel(values), front: front{laneStart, time.Now()}}
}

// A dueAnswer tells when the next row is due; nil: no row is known of.
type dueAnswer struct {
	next *dispatch.Wake
	at   time.Time // of the answer, by this machine's clock
}

// newClaimer is of a worker's lanes, the most urgent first.
func newClaimer(w *Worker) *claimer {
	c := &claimer{queue: w.queue, lease: w.options.Lease, target: w.target, rule: &w.rule, clock: w.dbClock}
	for _, values := range w.lanes {
		c.lanes = append(c.lanes, newLane(w.table, values))
	}
	if len(c.lanes) == 0 {
		c.lanes = []*lane{newLane(w.table, nil)} // a table without lanes is one
	}
	return c
}

// claim takes up to limit rows. Fewer than limit means: nothing more that this claimer knows of.
func (c *claimer) claim(ctx context.Context, limit int) ([]claimedRow, error) {
	lanes := c.order()
	start := time.Now()
	cursors, swept := c.begin(start, lanes)
	req := claimRequest{owner: uuid.New(), lease: c.lease, limit: limit, lanes: cursors, target: c.target}
	if c.asks {
		req.due = c.question()
	}
	rows, err := c.admitted(ctx, &req)
	if err != nil {
		return nil, err
	}
	full := len(rows) == req.limit
	c.advance(lanes, rows, swept, full, time.Since(start))
	c.learn(req.due, start)
	c.asks = !full
	return rows, nil
}

// begin tells where a claim begins in each lane, and whether it is a sweep.
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

// advance moves the cursors behind what a claim brought, in claim order. A full one may have left something.
func (c *claimer) advance(lanes []*lane, rows []claimedRow, swept, full bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if swept {
		cost := min(took, c.lastSweepTook) // one that was slow by accident, a reconnect, says nothing
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

// sweepNow makes the next claim a sweep.
func (c *claimer) sweepNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSweep = time.Time{}
}

// nextWake tells when the next row of any lane is due, when a sweep may find what a cursor has passed
// over, or when the rule of its lanes is to be asked again, whichever is first.
func (c *claimer) nextWake(ctx context.Context) (*dispatch.Wake, error) {
	next, err := c.nextDue(ctx)
	if err != nil {
		return nil, err
	}
	return c.withOwn(next), nil
}

// withOwn is a wake, or an earlier one for which the claimer has a reason of its own.
func (c *claimer) withOwn(next *dispatch.Wake) *dispatch.Wake {
	if in := c.sweepDue(); in >= 0 {
		next = earlier(next, &dispatch.Wake{In: max(in, sweepPause)})
	}
	if in := c.rule.due(); in >= 0 {
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

// nextDue tells when the next row is due. The last claim has mostly asked that, too, which saves a transaction.
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

// question asks from where the last answer ended, and so leaves no gap between what a claim sees and what it sees
// itself.
func (c *claimer) question() *dueQuestion {
	d := &dueQuestion{since: c.askedDue}
	for _, l := range c.lanes {
		d.lanes = append(d.lanes, l.values)
	}
	return d
}

// learn reads the answer to a question that was sent at the start.
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
