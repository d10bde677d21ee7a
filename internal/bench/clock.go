package bench

import (
	"context"
	"time"
)

// A clock tells the database's time without asking it.
type clock struct {
	at    time.Time     // of this machine, monotonic
	time  time.Time     // of the database then
	doubt time.Duration // by which it may be wrong, either way
}

// clockSamples are enough that one of them is not held up.
const clockSamples = 20

// readClock takes the answer that came fastest: the database has read its clock some time during that.
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
