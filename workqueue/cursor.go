package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bounds of the time between two sweeps, and the share of its time that a claimer spends on them.
const (
	minSweepInterval = 10 * time.Millisecond
	maxSweepInterval = time.Minute
	sweepShare       = 40 // one part in 40
)

// A claimer claims from one lane, behind a cursor: it goes on after the last row that it claimed, so
// that it reads neither the rows in flight nor the dead index entries which stand at the head of the
// claim index, and which a long transaction keeps there.
//
// The cursor is an optimisation and nothing else. A row may appear behind it: committed late, due in the
// past, or returned without moving. A notification moves the cursor back to it; a sweep from the start
// finds whatever no notification told of. The cost of a sweep, which grows with the dead entries,
// stretches the time to the next one.
type claimer struct {
	queue  *Queue
	lease  time.Duration
	lanes  []any
	target func() (any, []any)

	admission Admission // nil: every row may be claimed
	begins    beginner  // of the transactions of the admission
	askAgain  time.Time // when to ask the admission again; zero: it did not say

	askedDue *time.Time // when nextDue was last asked, by the database's clock

	mu            sync.Mutex
	cursor        position
	notified      position // the earliest place notified of since the current claim began; zero: none
	nextSweep     time.Time
	sweepEvery    time.Duration
	lastSweepTook time.Duration
	unswept       bool // rows may have been passed over since the last complete sweep
}

// claim takes up to limit rows. Fewer than limit means: nothing more that this claimer knows of.
func (c *claimer) claim(ctx context.Context, limit int) ([]claimedRow, error) {
	req := claimRequest{owner: NewOwnerToken(), lease: c.lease, limit: limit, lanes: c.lanes, target: c.target}
	start := time.Now()
	req.after = c.begin(start)
	rows, err := c.admitted(ctx, &req)
	if err == nil {
		c.advance(req, rows, time.Since(start))
	}
	return rows, err
}

// A beginner opens transactions: a pool, or a transaction of the application, whose are savepoints.
type beginner interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// savepoints begins transactions inside one of the application.
type savepoints struct{ tx pgx.Tx }

func (s savepoints) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) {
	return s.tx.Begin(ctx)
}

// admitted claims what the admission lets pass, in one transaction with its bookkeeping. A panic of the
// admission is an error, as other lanes may have given rows already.
func (c *claimer) admitted(ctx context.Context, req *claimRequest) (rows []claimedRow, err error) {
	defer recoverTo(&err)
	c.askAgain = time.Time{}
	if c.admission == nil || !c.admission.Bounded(c.lanes) {
		return c.queue.claim(ctx, *req)
	}
	err = pgx.BeginTxFunc(ctx, c.begins, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		n, again, err := c.admission.Admit(ctx, tx, c.lanes, req.limit)
		if err != nil {
			return err
		}
		if again > 0 && n < req.limit {
			c.askAgain = time.Now().Add(again)
		}
		if n <= 0 {
			return nil
		}
		req.limit = min(n, req.limit)
		rows, err = (&Queue{table: c.queue.table, exec: executorOf(tx, c.begins)}).claim(ctx, *req)
		if err != nil || len(rows) == 0 {
			return err
		}
		return c.admission.Claimed(ctx, tx, c.lanes, rowIDs(rows))
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// admissionDue tells how long until the admission is to be asked again; negative: it did not say.
func (c *claimer) admissionDue() time.Duration {
	if c.askAgain.IsZero() {
		return -1
	}
	return max(time.Until(c.askAgain), 0)
}

func (c *claimer) begin(now time.Time) position {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notified = position{}
	if !now.Before(c.nextSweep) {
		return position{}
	}
	return c.cursor
}

func (c *claimer) advance(req claimRequest, rows []claimedRow, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	swept := req.after.isStart()
	if swept {
		cost := min(took, c.lastSweepTook) // one that was slow by accident, a reconnect, says nothing
		c.lastSweepTook = took
		c.sweepEvery = min(max(sweepShare*cost, minSweepInterval), maxSweepInterval)
		c.nextSweep = time.Now().Add(c.sweepEvery)
	}
	c.unswept = !swept || len(rows) == req.limit
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		c.cursor = position{last.DueAt, last.ID}
		c.moveBack(c.notified)
	}
}

// rewind moves the cursor back so that the next claim sees rows due at that time. A claim under way may
// have read its snapshot before they were committed, so it does not move the cursor past them again.
func (c *claimer) rewind(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := position{due: due}
	if c.notified.isStart() || p.before(c.notified) {
		c.notified = p
	}
	c.moveBack(p)
}

func (c *claimer) moveBack(p position) {
	if !p.isStart() && p.before(c.cursor) {
		c.cursor = p
	}
}

// sweepNow makes the next claim a sweep.
func (c *claimer) sweepNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSweep = time.Time{}
}

// nextDue tells when the next row is due. It begins where it ended the time before, and so leaves no gap
// between what a claim sees and what it sees itself. It is called by one goroutine only.
func (c *claimer) nextDue(ctx context.Context) (*Wake, error) {
	next, asked, err := c.queue.nextDue(ctx, c.askedDue, c.lanes)
	if err == nil {
		c.askedDue = &asked
	}
	return next, err
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
