package bench

import (
	"sync"
	"time"
)

// A tally counts completed jobs, and closes a channel when all are done.
type tally struct {
	total int64
	all   chan struct{} // closed at the total

	mu       sync.Mutex
	begun    time.Time
	done     int64
	series   series
	quarters [4]time.Duration // when each quarter was reached
}

func newTally(total int64) *tally {
	return &tally{total: total, all: make(chan struct{}), begun: time.Now()}
}

func (t *tally) add() { t.addMany(1) }

func (t *tally) addMany(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Since(t.begun)
	for range n {
		t.addOne(at)
	}
}

func (t *tally) addOne(at time.Duration) {
	t.done++
	t.series.add(at)
	for q := range t.quarters {
		if t.done == t.total*int64(q+1)/4 {
			t.quarters[q] = at
		}
	}
	if t.done == t.total {
		close(t.all)
	}
}

func (t *tally) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

func (t *tally) perSecond() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(series(nil), t.series...)
}

// shortQuarter is how long a quarter must take for its speed to be meaningful: the first one includes the start, and
// jobs are completed in batches.
const shortQuarter = 100 * time.Millisecond

// lastToFirst compares the speed of the last quarter with that of the first. It returns 0 if the last quarter was not
// reached, or one of the two was too short.
func (t *tally) lastToFirst() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := t.quarters[0], t.quarters[3]-t.quarters[2]
	if t.done < t.total || min(first, last) < shortQuarter {
		return 0
	}
	return first.Seconds() / last.Seconds()
}
