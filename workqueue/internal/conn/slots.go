package conn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Slots decide which statement of a runtime may use one of its connections next. They stand in front of the pool,
// which knows only the order of arrival.
//
// Renewals go first, and one connection is always kept for them: a lease that is not renewed in time means that work is
// done twice. Everything else goes in the order of arrival. A worker asks for few connections at a time, however many
// handlers it has, so the claims of one worker do not wait long behind the settles of another.
//
// A statement that takes long, because its table is locked or its triggers are slow, makes way for others: a spare
// connection stands in for the one that it holds. No table holds more than limit connections, so that a locked table
// leaves some to the others.
type Slots struct {
	limit, spare int

	mu      sync.Mutex
	held    []*Slot
	waiting []*Slot // in the order in which they came
}

// NewSlots makes slots of so many connections, and of spare ones that stand in for slow ones.
func NewSlots(limit, spare int) *Slots { return &Slots{limit: limit, spare: spare} }

// slowAfter is how long a statement may take before a spare connection stands in for its own.
const slowAfter = 100 * time.Millisecond

// ErrNoSlot says that the connections were all in use until the time was up, which says nothing about the database.
var ErrNoSlot = errors.New("txwork: no connection of the runtime became free in time")

// A Slot is the right to use one connection.
type Slot struct {
	slots    *Slots
	table    string
	renews   bool
	slow     bool // it has been held for long
	relieved bool // and a spare connection stands in for it
	granted  chan struct{}
	timer    *time.Timer
}

// A Taker takes slots for one table.
type Taker struct {
	Slots  *Slots
	Table  string
	Renews bool
}

// Take waits for a slot. The caller must release it.
func (t Taker) Take(ctx context.Context) (*Slot, error) {
	if t.Slots == nil {
		return nil, nil
	}
	s := &Slot{slots: t.Slots, table: t.Table, renews: t.Renews, granted: make(chan struct{})}
	t.Slots.ask(s)
	select {
	case <-s.granted:
		return s, nil
	case <-ctx.Done():
		s.Release()
		return nil, errors.Join(ErrNoSlot, ctx.Err())
	}
}

func (q *Slots) ask(s *Slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, s)
	q.grant()
}

// Release gives a slot back, or stops waiting for it if it was not granted yet. On a nil slot it does nothing.
func (s *Slot) Release() {
	if s == nil {
		return
	}
	q := s.slots
	q.mu.Lock()
	defer q.mu.Unlock()
	is := func(o *Slot) bool { return o == s }
	q.waiting, q.held = slices.DeleteFunc(q.waiting, is), slices.DeleteFunc(q.held, is)
	if s.timer != nil {
		s.timer.Stop()
	}
	q.relieve()
	q.grant()
}

// grant grants slots to those that wait, renewals first.
func (q *Slots) grant() {
	for _, renews := range []bool{true, false} {
		q.waiting = slices.DeleteFunc(q.waiting, func(s *Slot) bool {
			if s.renews != renews || !q.free(s) {
				return false
			}
			q.held = append(q.held, s)
			s.timer = time.AfterFunc(slowAfter, s.becomeSlow)
			close(s.granted)
			return true
		})
	}
}

// free reports whether a slot may be granted now.
func (q *Slots) free(s *Slot) bool {
	busy, others, table := 0, 0, 0
	for _, h := range q.held {
		if !h.relieved {
			busy++
		}
		if !h.relieved && !h.renews {
			others++
		}
		if h.table == s.table && !h.renews {
			table++
		}
	}
	if s.renews {
		return busy < q.limit
	}
	return busy < q.limit && others < max(q.limit-1, 1) && table < q.limit
}

func (s *Slot) becomeSlow() {
	q := s.slots
	q.mu.Lock()
	defer q.mu.Unlock()
	s.slow = true
	q.relieve()
	q.grant()
}

// relieve puts spare connections in the place of slow ones.
func (q *Slots) relieve() {
	relieved := 0
	for _, h := range q.held {
		if h.relieved {
			relieved++
		}
	}
	for _, h := range q.held {
		if h.slow && !h.relieved && relieved < q.spare {
			h.relieved = true
			relieved++
		}
	}
}
