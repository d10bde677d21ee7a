package workqueue

import (
	"context"
	"math"
	"sync"
	"time"
)

// A flow holds the deliveries that wait for a handler and decides how many rows to claim next: enough
// to keep every handler busy while a claim is under way, but not so many that rows wait here which
// another process could be working on.
type flow struct {
	firstLimit int

	mu          sync.Mutex
	concurrency int          // handlers that are wanted
	handlers    int          // handlers that run
	handler     func()       // one of them
	spawn       func(func()) // runs it; nil: the worker has not begun
	shrunk      bool         // a claim under way may bring more than there is room for

	ready    sync.Cond     // deliveries are waiting, or the flow is closed
	space    chan struct{} // room may have appeared
	queue    []*delivery
	running  int
	limit    int // of the next claim
	rate     float64
	done     int // since measured
	measured time.Time
	closed   bool
	shares   map[string]*share // by topic, see worker_shares.go
	perTopic int               // how many handlers of a topic may run; 0: its share
	pruned   time.Time         // when shares were last forgotten
	stalls   *time.Timer       // of the next unstall
	release  func([]*delivery) // puts deliveries back that no handler has begun

	narrowed func() int // how many more rows may be in flight, see worker_narrow.go; nil: any number
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

func newFlow(concurrency, claimLimit int) *flow {
	f := &flow{concurrency: concurrency, firstLimit: claimLimit, limit: claimLimit, space: make(chan struct{}, 1),
		measured: time.Now()}
	f.ready.L = &f.mu
	return f
}

// await blocks until it is worth claiming and returns how many rows.
func (f *flow) await(ctx context.Context) (int, error) {
	paused := false
	for {
		want, enough := f.wanted()
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
		case <-f.space:
		case <-pause:
			paused = true
		}
	}
}

// wanted returns how many rows there is room for, and whether they are worth a claim at once: because half the room is
// free, or because every handler is idle.
func (f *flow) wanted() (want int, enough bool) {
	most := math.MaxInt
	if f.narrowed != nil {
		most = f.narrowed()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	target := f.target()
	room := target - len(f.queue) - f.running
	want = min(room, f.limit, most)
	if len(f.queue) > 0 && room < (target+1)/2 {
		return 0, false
	}
	return want, want > 0 && (room >= (target+1)/2 || f.running == 0)
}

func (f *flow) target() int {
	buffered := min(int(f.rate*bufferTime.Seconds()), maxBuffered)
	return f.concurrency + buffered
}

// put adds the deliveries of a claim that wanted so many rows. A claim that reaches the limit raises it at once. A
// claim that comes back short lowers it gradually, but not below twice what it brought: keys let rows through in
// batches, and each batch should fit into one claim. A claim that brings nothing came too early, and says nothing about
// the next batch. put returns the deliveries for which there is no room any more, see surplus.
func (f *flow) put(deliveries []*delivery, wanted int) (surplus []*delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measure(time.Now())
	switch {
	case len(deliveries) >= f.limit:
		f.limit = min(f.limit*2, max(maxClaimLimit, f.firstLimit))
	case 0 < len(deliveries) && len(deliveries) < wanted:
		f.limit = max(f.limit-f.limit/8, min(f.limit, 2*len(deliveries)), f.firstLimit)
	}
	f.queue = append(f.queue, deliveries...)
	if f.shrunk {
		f.shrunk, surplus = false, f.surplus()
	}
	if len(deliveries) == 1 {
		f.ready.Signal()
	} else {
		f.ready.Broadcast()
	}
	return surplus
}

// measure updates the rate of finished deliveries, a moving average over time and not over claims: two claims may be a
// millisecond apart, and one delivery that ends between them does not mean a thousand a second.
func (f *flow) measure(now time.Time) {
	elapsed, memory := now.Sub(f.measured).Seconds(), rateMemory.Seconds()
	f.rate = (f.rate*memory + float64(f.done)) / (memory + elapsed)
	f.done, f.measured = 0, now
}

// take waits for a delivery. It returns false if the handler is to end, because the flow is closed or has too many
// handlers.
func (f *flow) take() (*delivery, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.startable()
	for at < 0 && !f.closed && f.handlers <= f.concurrency {
		f.ready.Wait()
		at = f.startable()
	}
	if f.closed || f.handlers > f.concurrency {
		f.handlers--
		return nil, false
	}
	d := f.queue[at]
	if at > 0 {
		copy(f.queue[1:at+1], f.queue[:at]) // the others wait on in their order
	}
	f.queue[0] = nil
	f.queue = f.queue[1:]
	f.running++
	f.started(d)
	if len(f.queue) < f.target()/2 {
		f.signal()
	}
	return d, true
}

// finished counts a delivery that take has given out. It reports whether a claim may have rows for its place.
func (f *flow) finished(d *delivery, succeeded bool) (wake bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	f.done++
	wake = f.ended(d, succeeded)
	if f.shares != nil && len(f.queue) > 0 {
		f.ready.Broadcast() // a place of its topic, or a part of what others have left, is free
	}
	f.signal()
	return wake
}

func (f *flow) signal() {
	select {
	case f.space <- struct{}{}:
	default:
	}
}

// busy is how many deliveries have been taken and not finished.
func (f *flow) busy() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// load returns how many deliveries are with a handler, and how many may be at once.
func (f *flow) load() (running, concurrency int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running, f.concurrency
}

// idle reports whether no delivery is with a handler or waits for one.
func (f *flow) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running == 0 && len(f.queue) == 0
}

// close makes every take return false, even if deliveries are waiting.
func (f *flow) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.ready.Broadcast()
}

// drain removes and returns the deliveries that no handler took. They count as running until they are finished.
func (f *flow) drain() []*delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut(0)
}
