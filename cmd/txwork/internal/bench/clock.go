package bench

import (
	"context"
	"time"
)

// A clock estimates the database's time without asking for it.
type clock struct {
	at    time.Time     // time of this machine, monotonic
	time  time.Time     // time of the database at that moment
	doubt time.Duration // how far it may be wrong, either way
}

// clockSamples is large enough that at least one sample is not delayed.
const clockSamples = 20

// readClock uses the sample with the fastest reply, because the database read its clock at some time within it.
func (l *lab) readClock(ctx context.Context) (best clock, err error) {
	for i := range clockSamples {
		var c clock
		begun := time.Now()
		if err := l.meter.query(ctx, []any{&c.time}, "SELECT clock_timestamp()"); err != nil {
			return best, err
		}
		c.doubt = time.Since(begun) / 2
		c.at = begun.Add(c.doubt)
		if i == 0 || c.doubt < best.doubt {
			best = c
		}
	}
	return best, nil
}

func (c clock) now() time.Time { return c.time.Add(time.Since(c.at)) }
