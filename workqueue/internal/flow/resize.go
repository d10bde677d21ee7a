package flow

import "time"

// Start makes spawn run as many handlers as are wanted, now and whenever that number grows. Each of them must call Take
// until it returns false. Nothing is spawned once the buffer is closed.
func (b *Buffer[R]) Start(spawn func(handler func()), handler func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spawn = spawn
	b.handler = handler
	b.startHandlers()
}

func (b *Buffer[R]) startHandlers() {
	for b.spawn != nil && !b.closed && b.handlers < b.concurrency {
		b.handlers++
		b.spawn(b.handler)
	}
}

// Resize changes how many handlers are wanted. It releases the rows for which there is no room any more, in a goroutine
// beside the handlers.
func (b *Buffer[R]) Resize(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n < b.concurrency {
		b.shrunk = true
		b.rate *= float64(n) / float64(b.concurrency)
	}
	b.concurrency = n
	b.startHandlers()
	b.signal()
	b.ready.Broadcast() // so that handlers in excess end
	b.releaseSurplus()
}

// Trim releases the rows for which there is no room any more because handlers have become slower, in a goroutine beside
// the handlers. Nothing claims while they wait here, so nothing else would notice. A nil buffer has no rows.
func (b *Buffer[R]) Trim() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measure(time.Now())
	b.releaseSurplus()
}

func (b *Buffer[R]) releaseSurplus() {
	if surplus := b.surplus(); len(surplus) > 0 {
		b.spawn(func() { b.release(surplus) })
	}
}

// surplus takes out the latest rows for which there is no room. Other processes may have room for them.
func (b *Buffer[R]) surplus() []R {
	if b.closed { // Drain takes them
		return nil
	}
	return b.cut(min(max(b.target()-b.running*b.each+b.awaited, 0), len(b.queue)))
}
