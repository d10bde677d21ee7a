package log

import (
	"sync"
	"time"
)

// places are how many handlers of a relay run at once, over all pages that it has in hand.
type places struct {
	mu           sync.Mutex
	limit, taken int
	changed      chan struct{} // closed when a place has become free
	wanted       bool          // somebody waits for one
}

// keepFor is how long a page keeps a place that another one waits for.
const keepFor = 50 * time.Millisecond

func newPlaces(n int) *places { return &places{limit: n, changed: make(chan struct{})} }

// take takes a place. If there is none, the channel is closed when there may be one.
func (p *places) take() (taken bool, free <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.limit {
		p.wanted = true
		return false, p.changed
	}
	p.taken++
	return true, nil
}

func (p *places) give() { p.change(func() { p.taken-- }) }

func (p *places) resize(n int) { p.change(func() { p.limit = n }) }

func (p *places) change(by func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by()
	if p.wanted {
		p.wanted = false
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// keep reports whether one who has taken a place so long ago may keep it.
func (p *places) keep(held time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken <= p.limit && !(p.wanted && held > keepFor)
}

func (p *places) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// await waits until no handler runs, at the latest until the end, and returns how many still do.
func (p *places) await(end time.Time) int {
	for {
		p.mu.Lock()
		n, changed := p.taken, p.changed
		p.wanted = true
		p.mu.Unlock()
		if n == 0 || !time.Now().Before(end) {
			return n
		}
		timer := time.NewTimer(time.Until(end))
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}
