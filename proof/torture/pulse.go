//go:build unix

package torture

import (
	"context"
	"time"
)

// A pulse repeatedly asks the server which announcers are awake. It also notices when the machine stands still, since
// nothing is announced or claimed then, whatever the library does.
type pulse struct {
	asked, awake int
	still        int // number of answers that came late or not at all
}

const (
	pulseEvery = 100 * time.Millisecond
	// stillFor is how late the answer must be to a question that normally takes a millisecond.
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
