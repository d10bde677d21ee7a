//go:build unix

package torture

import (
	"context"
	"time"
)

// A pulse asks the server again and again which announcers are awake. It also tells whether the machine stood still:
// nobody hears or claims anything then, whatever the product does.
type pulse struct {
	asked, awake int
	still        int // how often the answer came late, or none did
}

const (
	pulseEvery = 100 * time.Millisecond
	// stillFor is how late the answer to a question must be that takes a millisecond.
	stillFor = 500 * time.Millisecond
)

func (p *pulse) watch(ctx context.Context, l *lab) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := l.awake(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			p.asked++
			p.awake += min(len(all), 1)
		}
		if time.Since(last) > pulseEvery+stillFor || err != nil {
			p.still++
			l.disturb(last, false)
		}
		last = time.Now()
	}
}
