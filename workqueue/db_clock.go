package workqueue

import (
	"sync/atomic"
	"time"
)

// A dbClock is the database's clock as seen from here: a reading that came with the answer to a statement, and this
// machine's monotonic clock since then. It only tells how long rows have waited; what is due is decided by the database
// itself.
type dbClock struct{ last atomic.Pointer[clockReading] }

type clockReading struct {
	base  time.Time     // the database's time
	at    time.Time     // ours, at that moment
	error time.Duration // at most
}

// clockDrift says how a reading ages: its error is taken to grow by one part in clockDrift of its age, which is far
// more than two clocks drift apart.
const clockDrift = 1000

// read takes the database's time from an answer, with the times at which the question was sent and the answer received.
// The reading that took the least time is the best, because the others have waited for connections.
func (c *dbClock) read(sent, received, database time.Time) {
	took := received.Sub(sent)
	r := &clockReading{base: database, at: sent.Add(took / 2), error: took / 2}
	if old := c.last.Load(); old == nil || r.error <= old.error+received.Sub(old.at)/clockDrift {
		c.last.Store(r)
	}
}

// of converts a time of this machine to the database's time. Without a reading it returns the time as it is.
func (c *dbClock) of(t time.Time) time.Time {
	if r := c.last.Load(); r != nil {
		return r.base.Add(t.Sub(r.at))
	}
	return t
}
