package workqueue

import (
	"sync"
	"sync/atomic"
	"time"
)

// notesDue are the settles of a process that write notes of one table. Its engines tell them to its folder.
type notesDue struct {
	wake     chan struct{}
	underway atomic.Int32 // settles under way that will write notes
	able     atomic.Bool  // the last fold was not refused; until the first one, others are told of what is settled

	mu       sync.Mutex // also the folder's
	settling time.Time  // when the first settle began whose notes are not folded yet; zero: there is none
}

// foldLinger is how long a folder waits for settles that are under way.
const foldLinger = 300 * time.Microsecond

// settles registers a settle that will write notes, and settled ends it: it asks for a fold. Neither blocks.
func (n *notesDue) settleBegins() (began time.Time) {
	n.underway.Add(1)
	return time.Now()
}

func (n *notesDue) settleEnded(began time.Time) {
	n.underway.Add(-1)
	n.mu.Lock()
	n.settling = earliest(n.settling, began)
	n.mu.Unlock()
	n.want()
}

// gather waits a moment for settles that are under way. Keys whose rows are settled at about the same time are then
// folded together, and the rows that this releases are claimed together.
func (n *notesDue) gather() {
	if n.underway.Load() == 0 {
		return
	}
	timer := time.NewTimer(foldLinger)
	defer timer.Stop()
	for n.underway.Load() > 0 {
		select {
		case <-n.wake:
		case <-timer.C:
			return
		}
	}
}

func (n *notesDue) want() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
