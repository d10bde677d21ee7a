package flow

import (
	"slices"
	"time"
)

// A Batch is what a handler that takes several rows at once says of them.
type Batch[R Row] struct {
	Limit  int           // of rows, the first included
	Linger time.Duration // how long it waits for others if it is not full
	// Accept decides whether a row joins, and whether the batch is then full; it may be full without this row. Rows are
	// asked about in the order in which they wait. In a buffer it is called with the lock held.
	Accept func(row R) (joins, full bool)

	others int // that have joined the first
	full   bool
}

// Offer reports whether a row joins. None joins a batch that is full.
func (b *Batch[R]) Offer(row R) (joins bool) {
	if b.IsFull() {
		return false
	}
	if joins, b.full = b.Accept(row); joins {
		b.others++
	}
	return joins
}

// IsFull reports whether no further row joins.
func (b *Batch[R]) IsFull() bool { return b.full || b.room() <= 0 }

// room is how many rows it takes at most.
func (b *Batch[R]) room() int { return b.Limit - 1 - b.others }

// A Gathering is a batch that takes rows.
type Gathering[R Row] struct {
	Batch[R]
	rows  []R
	ended bool          // it is full, or the buffer is closed
	end   chan struct{} // closed then
}

// SetBatches says how many rows to claim for a handler, and which batch a row begins, if any. The function is called
// with the buffer's lock held.
func (b *Buffer[R]) SetBatches(each int, begins func(first R) (batch Batch[R], ok bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.each, b.begins = each, begins
}

// begin begins the batch of a row that a handler takes, if it has one. The batch takes what waits here at once: before
// another handler takes a row that would have joined it, and waits for others in vain.
func (b *Buffer[R]) begin(first R) *Gathering[R] {
	batch, ok := b.begins(first)
	if !ok {
		return nil
	}
	g := &Gathering[R]{Batch: batch, rows: []R{first}, end: make(chan struct{})}
	if s := first.Place().share; s != nil {
		s.each = max(s.each, batch.Limit)
	}
	if b.fill(g); !g.ended && g.Linger > 0 {
		b.gatherings = append(b.gatherings, g)
		b.awaited += g.room()
		b.signal() // there is room for what it waits for
	}
	return g
}

// Gather returns the rows of a batch: those that it has, and for as long as it lingers those that claims bring. They
// share the place of the first, which FinishedBatch gives back. If the buffer was closed meanwhile, begins is false:
// all of them are to be put back, and each counts as running until it is finished.
func (b *Buffer[R]) Gather(g *Gathering[R]) (rows []R, begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.gatherings, g) {
		b.await(g)
	}
	if b.closed {
		b.running += len(g.rows) - 1
	}
	return g.rows, !b.closed
}

// await lets a batch wait for rows. It is called with the lock held, which it releases while it waits.
func (b *Buffer[R]) await(g *Gathering[R]) {
	timer := time.NewTimer(g.Linger)
	defer timer.Stop()
	b.mu.Unlock()
	select {
	case <-timer.C:
	case <-g.end:
	}
	b.mu.Lock()
	b.gatherings = slices.DeleteFunc(b.gatherings, func(o *Gathering[R]) bool { return o == g })
	b.feed()
}

// feed gives the rows that wait here to the batches that wait for them, and counts how many more these could take.
func (b *Buffer[R]) feed() {
	b.awaited = 0
	for _, g := range b.gatherings {
		b.fill(g)
		if !g.ended {
			b.awaited += g.room()
		}
	}
}

// fill moves rows that wait here into a batch.
func (b *Buffer[R]) fill(g *Gathering[R]) {
	if g.ended || !g.IsFull() && len(b.queue) == 0 {
		return
	}
	b.queue = slices.DeleteFunc(b.queue, func(row R) (joins bool) {
		if joins = g.Offer(row); joins {
			g.rows = append(g.rows, row)
		}
		return joins
	})
	if g.IsFull() {
		g.finish()
	}
	if len(b.queue) < b.target()/2 {
		b.signal()
	}
}

// finish ends a batch's waiting.
func (g *Gathering[R]) finish() {
	if !g.ended {
		g.ended = true
		close(g.end)
	}
}

// BeginRuns begins a claim of the rows behind those of a batch, and returns how many there is room for; if there is
// none, it has not begun. EndRuns ends it, when its rows are in flight.
func (b *Buffer[R]) BeginRuns(want int) int { return b.isolation.beginClaim(want) }

// EndRuns ends what BeginRuns has begun.
func (b *Buffer[R]) EndRuns(rows int) { b.isolation.endClaim(rows == 0) }

// FinishedBatch is Finished for a batch of so many rows, which share the place of the first.
func (b *Buffer[R]) FinishedBatch(first R, rows int, succeeded bool) (wake bool) {
	b.mu.Lock()
	b.done += rows - 1
	b.mu.Unlock()
	return b.Finished(first, succeeded)
}
