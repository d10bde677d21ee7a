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

// Statements that take long have spare connections, of which no table gets so many that another has none.
func TestSlowStatementsGiveTheirPlaceToOthers(t *testing.T) {
	t.Parallel()
	q := &slots{limit: 4, spare: 3}
	var locked []*slot
	for range 10 {
		locked = append(locked, q.asked("locked", false))
	}
	other := q.asked("other", false)
	if other.has() {
		t.Fatal("there was a fourth slot for what is no renewal")
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

// sizes takes the lock, since slots become slow by themselves.
func (q *slots) sizes() (held, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held), len(q.waiting)
}

// Who waits in vain leaves nothing behind, and is told apart from a database that does not answer.
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
		t.Error("who went away is still waited for")
	}
}

// The server keeps every notification for a listener, and so ends the session of one whose process is frozen.
func TestTheServerBoundsAListener(t *testing.T) {
	t.Parallel()
	conn, err := pgtest.New(t).Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := boundSession(t.Context(), conn.Conn()); err != nil {
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

// The session that holds the lock of the sweeps is one that the server ends sooner.
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
