package workqueue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txwork/txwork/internal/pgtest"
)

// asked asks for a slot.
func (q *slots) asked(table string, renews bool) *slot {
	s := &slot{slots: q, table: table, renews: renews, granted: make(chan struct{})}
	q.ask(s)
	return s
}

func (s *slot) has() bool {
	select {
	case <-s.granted:
		return true
	default:
		return false
	}
}

func TestOneSlotIsKeptForRenewals(t *testing.T) {
	t.Parallel()
	q := &slots{limit: 4}
	others := []*slot{q.asked("a", false), q.asked("b", false), q.asked("c", false), q.asked("d", false)}
	for i, s := range others {
		if s.has() != (i < 3) {
			t.Errorf("claim %d was granted: %v", i+1, s.has())
		}
	}
	renewal, second := q.asked("a", true), q.asked("b", true)
	if !renewal.has() || second.has() {
		t.Errorf("renewals were granted: %v and %v, want the first", renewal.has(), second.has())
	}
	others[0].release()
	if !second.has() || others[3].has() {
		t.Error("a renewal that came later does not go before a claim")
	}
	renewal.release()
	if !others[3].has() {
		t.Error("a slot that is free was not granted")
	}
	second.release()
	if last := q.asked("e", false); last.has() {
		t.Error("the slot that is kept for renewals went to a claim")
	}
}

// Slow statements get spare connections, but no table gets so many that another table has none.
func TestSlowStatementsGiveTheirPlaceToOthers(t *testing.T) {
	t.Parallel()
	q := &slots{limit: 4, spare: 3}
	var locked []*slot
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
		s.release()
	}
	if held, waiting := q.sizes(); held+waiting > 0 {
		t.Errorf("%d slots are held and %d waited for when all were released", held, waiting)
	}
}

// sizes takes the lock, because slots become slow in a goroutine of their own.
func (q *slots) sizes() (held, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held), len(q.waiting)
}

// A statement that waits for a slot in vain leaves nothing behind. Its error differs from that of a database that does
// not answer.
func TestASlotThatIsWaitedForInVain(t *testing.T) {
	t.Parallel()
	q := &slots{limit: 2}
	first := q.asked("a", false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := (slotTaker{slots: q, table: "b"}).take(ctx); !errors.Is(err, errNoSlot) {
		t.Errorf("got %v, want %v", err, errNoSlot)
	}
	first.release()
	next := q.asked("c", false)
	defer next.release()
	if _, waiting := q.sizes(); !next.has() || waiting > 0 {
		t.Error("a request that was given up is still waiting")
	}
}

// The server keeps every notification for a listener. It therefore ends the session of a listener whose process is
// frozen.
func TestTheServerBoundsAListener(t *testing.T) {
	t.Parallel()
	conn, err := pgtest.New(t).Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := boundSession(t.Context(), conn.Conn()); err != nil {
		t.Fatal(err)
	}
	var idle string
	if err := conn.QueryRow(t.Context(),
		"SELECT coalesce(current_setting('idle_session_timeout', true), '')").Scan(&idle); err != nil {
		t.Fatal(err)
	}
	if serverVersion(conn.Conn()) >= 14 && idle != "90s" {
		t.Errorf("idle_session_timeout is %q, want 90s", idle)
	}
}

// The server ends the session that holds the upkeep lock sooner.
func TestTheServerBoundsALeader(t *testing.T) {
	t.Parallel()
	conn, err := pgtest.New(t).Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if serverVersion(conn.Conn()) < 14 {
		t.Skip("the server has no idle_session_timeout")
	}
	e := newElection(conn.Conn())
	for _, want := range []string{"15s", "90s"} {
		clear(e.led)
		if want == "15s" {
			e.led[new(tableWork)] = true
		}
		if err := e.setBound(t.Context()); err != nil {
			t.Fatal(err)
		}
		var idle string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting('idle_session_timeout')").Scan(&idle); err != nil {
			t.Fatal(err)
		}
		if idle != want {
			t.Errorf("idle_session_timeout is %q, want %s", idle, want)
		}
	}
}
