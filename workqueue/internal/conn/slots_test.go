package conn

import (
	"context"
	"errors"
	"testing"
	"time"
)

// asked asks for a slot.
func (q *Slots) asked(table string, renews bool) *Slot {
	s := &Slot{slots: q, table: table, renews: renews, granted: make(chan struct{})}
	q.ask(s)
	return s
}

func (s *Slot) has() bool {
	select {
	case <-s.granted:
		return true
	default:
		return false
	}
}

func TestOneSlotIsKeptForRenewals(t *testing.T) {
	t.Parallel()
	q := &Slots{limit: 4}
	others := []*Slot{q.asked("a", false), q.asked("b", false), q.asked("c", false), q.asked("d", false)}
	for i, s := range others {
		if s.has() != (i < 3) {
			t.Errorf("claim %d was granted: %v", i+1, s.has())
		}
	}
	renewal, second := q.asked("a", true), q.asked("b", true)
	if !renewal.has() || second.has() {
		t.Errorf("renewals were granted: %v and %v, want the first", renewal.has(), second.has())
	}
	others[0].Release()
	if !second.has() || others[3].has() {
		t.Error("a renewal that came later does not go before a claim")
	}
	renewal.Release()
	if !others[3].has() {
		t.Error("a slot that is free was not granted")
	}
	second.Release()
	if last := q.asked("e", false); last.has() {
		t.Error("the slot that is kept for renewals went to a claim")
	}
}

// Slow statements get spare connections, but no table gets so many that another table has none.
func TestSlowStatementsGiveTheirPlaceToOthers(t *testing.T) {
	t.Parallel()
	q := &Slots{limit: 4, spare: 3}
	var locked []*Slot
	for range 10 {
		locked = append(locked, q.asked("locked", false))
	}
	other := q.asked("other", false)
	if other.has() {
		t.Fatal("a fourth slot was granted, and not for a renewal")
	}
	for _, s := range locked[:3] {
		s.timer.Stop()
		s.becomeSlow()
	}
	if !other.has() {
		t.Error("another table waits behind statements that are slow")
	}
	granted := 0
	for _, s := range locked {
		if s.has() {
			granted++
		}
	}
	if granted != 4 {
		t.Errorf("the locked table has %d slots, want 4", granted)
	}
	if held, _ := q.sizes(); held > q.limit+q.spare {
		t.Errorf("%d slots are held of %d", held, q.limit+q.spare)
	}
	for _, s := range append(locked, other) {
		s.Release()
	}
	if held, waiting := q.sizes(); held+waiting > 0 {
		t.Errorf("%d slots are held and %d waited for when all were released", held, waiting)
	}
}

// sizes takes the lock, because slots become slow in a goroutine of their own.
func (q *Slots) sizes() (held, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held), len(q.waiting)
}

// A Statement that waits for a slot in vain leaves nothing behind. Its error differs from that of a database that does
// not answer.
func TestASlotThatIsWaitedForInVain(t *testing.T) {
	t.Parallel()
	q := &Slots{limit: 2}
	first := q.asked("a", false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := (Taker{Slots: q, Table: "b"}).Take(ctx); !errors.Is(err, ErrNoSlot) {
		t.Errorf("got %v, want %v", err, ErrNoSlot)
	}
	first.Release()
	next := q.asked("c", false)
	defer next.Release()
	if _, waiting := q.sizes(); !next.has() || waiting > 0 {
		t.Error("a request that was given up is still waiting")
	}
}
