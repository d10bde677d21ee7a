//go:build unix

package torture

import "sync"

// A tally counts rows that were committed. Timers that are set again and messages that are delivered twice count once.
type tally struct {
	mu    sync.Mutex
	known map[written]struct{}
}

func newTally() *tally { return &tally{known: map[written]struct{}{}} }

func (t *tally) add(names []announced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		t.known[name.written] = struct{}{}
	}
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}
