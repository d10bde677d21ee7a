package workqueue

import (
	"sync/atomic"
	"time"
)

// A dbClock is the database's clock as seen from here: a reading that came with the answer to some question, and this
// machine's monotonic clock since. It only tells how long rows have waited; what is due is decided by the database
// itself.
type dbClock struct{ last atomic.Pointer[clockReading] }

type clockReading struct {
	base  time.Time     // the database's time
	at    time.Time     // ours, at that moment
	error time.Duration // at most
}

// clockDrift is how much a reading loses against a new one for each unit of its age: far more than two clocks drift
// apart.
const clockDrift = 1000

// read takes the database's time from an answer to what was sent and received at these times. Of several readings the
// one that took the least is the best, since the others have waited for connections.
func (c *dbClock) read(sent, received, database time.Time) {
	took := received.Sub(sent)
	r := &clockReading{base: database, at: sent.Add(took / 2), error: took / 2}
	if old := c.last.Load(); old == nil || r.error <= old.error+received.Sub(old.at)/clockDrift {
		c.last.Store(r)
	}
}

// of is the database's time at one of ours; ours as long as there is no reading.
func (c *dbClock) of(t time.Time) time.Time {
	if r := c.last.Load(); r != nil {
		return r.base.Add(t.Sub(r.at))
	}
	return t
}
