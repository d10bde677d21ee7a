package workqueue

import (
	"slices"
	"time"
)

// SetConcurrency changes how many handlers run at once. It may be called at any time, also before Run, and is safe for
// concurrent use; the last call counts. It does not wait: when there are to be fewer, running handlers finish, and rows
// that were claimed and that no handler has begun are returned with their attempt, as far as there is no room for them
// any more.
func (w *Worker) SetConcurrency(n int) error {
	if err := checkConcurrency(n); err != nil {
		return err
	}
	w.flow.resize(n, w.release)
	return nil
}

func checkConcurrency(n int) error {
	if n < 1 || n > maxConcurrency {
		return invalid("concurrency", "is %d, it must be between 1 and %d", n, maxConcurrency)
	}
	return nil
}

// release returns rows that no handler has started, with their attempt.
func (w *Worker) release(deliveries []*delivery) {
	for _, d := range deliveries {
		w.finish(d, released)
	}
}

// staff makes spawn run as many handlers as are wanted, now and whenever that number grows. Each of them must call take
// until it returns false. Nothing is spawned once the flow is closed.
func (f *flow) staff(spawn func(handler func()), handler func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spawn = spawn
	f.handler = handler
	f.hire()
}

func (f *flow) hire() {
	for f.spawn != nil && !f.closed && f.handlers < f.concurrency {
		f.handlers++
		f.spawn(f.handler)
	}
}

// resize changes how many handlers are wanted. It releases the deliveries for which there is no room any more, in a
// goroutine beside the handlers.
func (f *flow) resize(n int, release func([]*delivery)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < f.concurrency {
		f.shrunk = true
		f.rate *= float64(n) / float64(f.concurrency)
	}
	f.concurrency = n
	f.hire()
	f.signal()
	f.ready.Broadcast() // so that handlers in excess end
	f.releaseSurplus(release)
}

// wantedHandlers is the current concurrency.
func (f *flow) wantedHandlers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.concurrency
}

// surplus takes out the latest deliveries for which there is no room. Other processes may have room for them.
func (f *flow) surplus() []*delivery {
	if f.closed { // drain takes them
		return nil
	}
	return f.cut(min(max(f.target()-f.running, 0), len(f.queue)))
}

// trim releases the deliveries for which there is no room any more because handlers have become slower, in a goroutine
// beside the handlers. Nothing claims while they wait here, so nothing else would notice.
func (f *flow) trim(release func([]*delivery)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.measure(time.Now())
	f.releaseSurplus(release)
}

func (f *flow) releaseSurplus(release func([]*delivery)) {
	if surplus := f.surplus(); len(surplus) > 0 {
		f.spawn(func() { release(surplus) })
	}
}

// cut takes out the deliveries from a place in the queue to its end. They count as running until they are finished.
func (f *flow) cut(from int) []*delivery {
	rest := slices.Clone(f.queue[from:])
	clear(f.queue[from:])
	f.queue = f.queue[:from]
	f.running += len(rest)
	return rest
}
