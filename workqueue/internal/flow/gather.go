package flow

import (
	"slices"
	"time"
)

// A Batch is what a handler that takes several rows at once says of them.
type Batch[R Row] struct {
	Limit  int           // of rows, the first included
	Linger time.Duration // how long it waits for others if it is not full
	// Accept decides on a row that could join. A full batch takes no more, whether or not it takes this one. Rows are
	// asked about in the order in which they wait. It is called with the buffer's lock held.
	Accept func(row R) (joins, full bool)
}

// A gathering is a batch that takes rows.
type gathering[R Row] struct {
	Batch[R]
	rows  []R
	ended bool          // it is full, or the buffer is closed
	end   chan struct{} // closed then
}

// SetEach says how many rows to claim for a handler.
func (b *Buffer[R]) SetEach(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.each = n
}

// Gather takes more rows for the handler that has taken the first: at once those that wait here, and for as long as the
// batch lingers those that claims bring. They share the place of the first, which FinishedBatch gives back. If the
// buffer was closed meanwhile, begins is false: all of them are to be put back, and each counts as running until it is
// finished.
func (b *Buffer[R]) Gather(first R, batch Batch[R]) (rows []R, begins bool) {
	g := &gathering[R]{Batch: batch, rows: []R{first}, end: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := first.Place().share; s != nil {
		s.each = max(s.each, batch.Limit)
	}
	if b.fill(g); !g.ended && g.Linger > 0 && !b.closed {
		b.await(g)
	}
	if b.closed {
		b.running += len(g.rows) - 1
	}
	return g.rows, !b.closed
}

// await lets a batch wait for rows. It is called with the lock held, which it releases while it waits.
func (b *Buffer[R]) await(g *gathering[R]) {
	timer := time.NewTimer(g.Linger)
	defer timer.Stop()
	b.gatherings = append(b.gatherings, g)
	b.feed()
	b.signal() // there is room for what it waits for
	b.mu.Unlock()
	select {
	case <-timer.C:
	case <-g.end:
	}
	b.mu.Lock()
	b.gatherings = slices.DeleteFunc(b.gatherings, func(o *gathering[R]) bool { return o == g })
	b.feed()
}

// feed gives the rows that wait here to the batches that wait for them, and counts how many more these could take.
func (b *Buffer[R]) feed() {
	b.awaited = 0
	for _, g := range b.gatherings {
		b.fill(g)
		if !g.ended {
			b.awaited += g.Limit - len(g.rows)
		}
	}
}

// fill moves rows that wait here into a batch.
func (b *Buffer[R]) fill(g *gathering[R]) {
	full := len(g.rows) >= g.Limit
	if g.ended || !full && len(b.queue) == 0 {
		return
	}
	b.queue = slices.DeleteFunc(b.queue, func(row R) (joins bool) {
		if full {
			return false
		}
		if joins, full = g.Accept(row); joins {
			g.rows = append(g.rows, row)
			full = full || len(g.rows) >= g.Limit
		}
		return joins
	})
	if full {
		g.finish()
	}
	if len(b.queue) < b.target()/2 {
		b.signal()
	}
}

// finish ends a batch's waiting.
func (g *gathering[R]) finish() {
	if !g.ended {
		g.ended = true
		close(g.end)
	}
}

// BeginRuns begins a claim of the rows behind those of a batch, and returns how many there is room for; if there is
// none, it has not begun. EndRuns ends it, when its rows are in flight.
func (b *Buffer[R]) BeginRuns(want int) int { return b.isolation.beginClaim(want) }

// EndRuns ends what BeginRuns has begun.
func (b *Buffer[R]) EndRuns(rows int) { b.isolation.endClaim(rows) }

// FinishedBatch is Finished for a batch of so many rows, which share the place of the first.
func (b *Buffer[R]) FinishedBatch(first R, rows int, succeeded bool) (wake bool) {
	b.mu.Lock()
	b.done += rows - 1
	b.mu.Unlock()
	return b.Finished(first, succeeded)
}
