package flow

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Row is a claimed row, as its worker knows it.
type Row interface{ Place() *Place }

// A Place belongs to a row, and holds what the buffer knows about it. The zero value is usable.
type Place struct {
	Topic string  // of the row; empty: its table has no topics
	Lost  *Losses // nil: it has lost no lease

	share   *share    // of its topic; nil: it has none
	started time.Time // if its share counts it
}

// InFlight are the rows of a worker from the claim until the settle.
type InFlight[R Row] interface {
	Count() int
	Has(row R) bool
}

// A Buffer holds the rows that wait for a handler and decides how many rows to claim next: enough to keep every handler
// busy while a claim is under way, but not so many that rows wait here which another process could be working on.
type Buffer[R Row] struct {
	firstLimit int
	perTopic   int           // how many handlers of a topic may run; 0: its share
	release    func([]R)     // puts rows back that no handler has begun
	isolation  *Isolation[R] // nil: none
	inFlight   InFlight[R]   // nil without an isolation

	mu          sync.Mutex
	concurrency int          // handlers that are wanted
	each        int          // how many rows to claim for a handler
	handlers    int          // handlers that run
	handler     func()       // one of them
	spawn       func(func()) // runs it; nil: the worker has not begun
	shrunk      bool         // a claim under way may bring more than there is room for

	ready    sync.Cond     // rows are waiting, or the buffer is closed
	space    chan struct{} // room may have appeared
	queue    []R
	running  int
	limit    int // of the next claim, in rows
	rate     float64
	done     int // since measured
	measured time.Time
	closed   bool
	shares   map[string]*share // by topic
	pruned   time.Time         // when shares were last forgotten
	stalls   *time.Timer       // of the next unstall

	begins     func(first R) (Batch[R], bool) // nil: every row is handled alone
	gatherings []*Gathering[R]                // batches that wait for more rows
	awaited    int                            // how many rows they have room for
}

const (
	// bufferTime is how much work may wait in the process, at the rate it has been finishing.
	bufferTime = 100 * time.Millisecond
	// rateMemory is the time in which that rate moves half of the way to a new one.
	rateMemory = 50 * time.Millisecond
	// maxBuffered bounds it in rows, and with it the memory.
	maxBuffered = 5000
	// maxClaimLimit is where claims stop growing: larger ones were not faster and hold locks longer.
	maxClaimLimit = 1000
	// claimPause keeps handlers that finish one by one from each making a claim of one row.
	claimPause = 2 * time.Millisecond
)

// Options configure a [Buffer].
type Options struct {
	Concurrency int // handlers
	ClaimLimit  int // rows of the first claim
	PerTopic    int // handlers of one topic; 0: its share
}

// New makes a buffer. It calls release with rows that no handler has begun and that are to be put back. They count as
// running until they are finished.
func New[R Row](o Options, release func([]R)) *Buffer[R] {
	b := &Buffer[R]{concurrency: o.Concurrency, firstLimit: o.ClaimLimit, limit: o.ClaimLimit, perTopic: o.PerTopic,
		each: 1, release: release, space: make(chan struct{}, 1), measured: time.Now()}
	b.ready.L = &b.mu
	return b
}

// Await blocks until it is worth claiming and returns how many rows, at least one. The claim has then begun: Add must
// follow, whatever it brought.
func (b *Buffer[R]) Await(ctx context.Context) (int, error) {
	for {
		want, err := b.awaitRoom(ctx)
		if err != nil {
			return 0, err
		}
		if want = b.isolation.beginClaim(want); want > 0 {
			return want, nil
		}
	}
}

func (b *Buffer[R]) awaitRoom(ctx context.Context) (int, error) {
	paused := false
	for {
		want, enough := b.wanted()
		if enough || want > 0 && paused {
			return want, ctx.Err()
		}
		var pause <-chan time.Time
		if want > 0 {
			pause = time.After(claimPause)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-b.space:
		case <-pause:
			paused = true
		}
	}
}

// wanted returns how many rows the next claim may take, and whether to claim at once: because half of the target is
// free, or no handler is at work. Otherwise a smaller claim may follow after a pause, unless rows are waiting.
func (b *Buffer[R]) wanted() (want int, enough bool) {
	most := b.isolation.room()
	b.mu.Lock()
	defer b.mu.Unlock()
	target := b.target()
	room := target - len(b.queue) - b.running*b.each + b.awaited
	want = min(room, b.limit, most)
	if len(b.queue) > 0 && room < (target+1)/2 {
		return 0, false
	}
	return want, want > 0 && (room >= (target+1)/2 || b.running == 0)
}

func (b *Buffer[R]) target() int {
	buffered := min(int(b.rate*bufferTime.Seconds()), maxBuffered)
	return b.concurrency*b.each + buffered
}

// Add ends a claim that wanted so many rows, and takes those that it brought, which are in flight by now. It releases
// those for which there is no room any more, and those that may not run beside others.
func (b *Buffer[R]) Add(rows []R, wanted int) {
	admitted, back, most := b.isolation.admit(b, rows, b.assign(rows))
	b.release(append(b.put(admitted, wanted, most), back...))
	b.isolation.endClaim(len(rows) == 0)
}

// put adds the rows of a claim that wanted so many. A claim that reaches the limit raises it at once. A claim that
// comes back short lowers it gradually, but not below twice what it brought: keys let rows through in batches, and each
// batch should fit into one claim. A claim that brings nothing came too early, and says nothing about the next batch.
// No more than most rows could start now, so the next claim is no larger. put returns the rows for which there is no
// room any more, see surplus.
func (b *Buffer[R]) put(rows []R, wanted, most int) (surplus []R) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measure(time.Now())
	switch {
	case len(rows) >= b.limit:
		b.limit = min(b.limit*2, max(maxClaimLimit, b.firstLimit))
	case 0 < len(rows) && len(rows) < wanted:
		b.limit = max(b.limit-b.limit/8, min(b.limit, 2*len(rows)), b.firstLimit)
	}
	b.limit = min(b.limit, most)
	b.queue = append(b.queue, rows...)
	if b.gatherings != nil {
		b.feed()
	}
	if b.shrunk {
		b.shrunk, surplus = false, b.surplus()
	}
	if len(rows) == 1 && b.shares == nil { // with shares, others may be startable by now
		b.ready.Signal()
	} else {
		b.ready.Broadcast()
	}
	return surplus
}

// measure updates the rate of finished rows, a moving average over time and not over claims: two claims may be a
// millisecond apart, and one row that ends between them does not mean a thousand a second.
func (b *Buffer[R]) measure(now time.Time) {
	elapsed, memory := now.Sub(b.measured).Seconds(), rateMemory.Seconds()
	b.rate = (b.rate*memory + float64(b.done)) / (memory + elapsed)
	b.done, b.measured = 0, now
}

// Take waits for a row, and begins its batch, if it has one. It returns false if the handler is to end, because the
// buffer is closed or has too many handlers.
func (b *Buffer[R]) Take() (row R, batch *Gathering[R], ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.startable()
	for at < 0 && !b.closed && b.handlers <= b.concurrency {
		b.ready.Wait()
		at = b.startable()
	}
	if b.closed || b.handlers > b.concurrency {
		b.handlers--
		return row, nil, false
	}
	row = b.queue[at]
	if at > 0 {
		copy(b.queue[1:at+1], b.queue[:at]) // the others wait on in their order
	}
	clear(b.queue[:1])
	b.queue = b.queue[1:]
	b.running++
	b.started(row)
	if b.begins != nil {
		batch = b.begin(row)
	}
	if len(b.queue) < b.target()/2 {
		b.signal()
	}
	return row, batch, true
}

// Finished counts a row that Take has given out, or that was to be put back. It reports whether to claim at once: rows
// of its topic may be waiting in the table.
func (b *Buffer[R]) Finished(row R, succeeded bool) (wake bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running--
	b.done++
	wake = b.ended(row, succeeded)
	if b.shares != nil && len(b.queue) > 0 {
		b.ready.Broadcast() // a place of its topic, or a part of what others have left, is free
	}
	b.signal()
	return wake
}

func (b *Buffer[R]) signal() {
	select {
	case b.space <- struct{}{}:
	default:
	}
}

// Load returns how many rows are with a handler, or on their way back, and how many may be at once.
func (b *Buffer[R]) Load() (running, concurrency int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running, b.concurrency
}

// Idle reports whether no row is with a handler or waits for one.
func (b *Buffer[R]) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running == 0 && len(b.queue) == 0
}

// Close makes every Take return false, even if rows are waiting.
func (b *Buffer[R]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, g := range b.gatherings {
		g.finish()
	}
	b.ready.Broadcast()
}

// Drain removes and returns the rows that no handler took. They count as running until they are finished.
func (b *Buffer[R]) Drain() []R {
	waiting := b.isolation.withdraw(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(waiting, b.cut(0)...)
}

// cut takes out the rows from a place in the queue to its end. They count as running until they are finished.
func (b *Buffer[R]) cut(from int) []R {
	rest := slices.Clone(b.queue[from:])
	clear(b.queue[from:])
	b.queue = b.queue[:from]
	b.running += len(rest)
	return rest
}

// withhold counts rows as running that no handler takes.
func (b *Buffer[R]) withhold(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += n
}

// resume gives rows that were withheld to the next handlers.
func (b *Buffer[R]) resume(rows []R) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running -= len(rows)
	b.queue = slices.Insert(b.queue, 0, rows...)
	if b.gatherings != nil {
		b.feed()
	}
	b.ready.Broadcast()
}

// releaseAll releases what no handler has begun, in a goroutine beside the handlers.
func (b *Buffer[R]) releaseAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.spawn != nil && len(b.queue) > 0 {
		rest := b.cut(0)
		b.spawn(func() { b.release(rest) })
	}
}
