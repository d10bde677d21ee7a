package workqueue

import (
	"testing"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// The server keeps every notification for a listener. It therefore ends the session of a listener whose process is
// frozen.
func TestTheServerBoundsAListener(t *testing.T) {
	t.Parallel()
	session, err := pgtest.New(t).Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Release()
	if _, err := boundSession(t.Context(), session.Conn()); err != nil {
		t.Fatal(err)
	}
	var idle string
	if err := session.QueryRow(t.Context(),
		"SELECT coalesce(current_setting('idle_session_timeout', true), '')").Scan(&idle); err != nil {
		t.Fatal(err)
	}
	if conn.ServerVersion(session.Conn()) >= 14 && idle != "90s" {
		t.Errorf("idle_session_timeout is %q, want 90s", idle)
	}
}

// The server ends the session that holds the upkeep lock sooner.
func TestTheServerBoundsALeader(t *testing.T) {
	t.Parallel()
	session, err := pgtest.New(t).Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Release()
	if conn.ServerVersion(session.Conn()) < 14 {
		t.Skip("the server has no idle_session_timeout")
	}
	e := newElection(session.Conn())
	for _, want := range []string{"15s", "90s"} {
		clear(e.led)
		if want == "15s" {
			e.led[new(tableWork)] = true
		}
		if err := e.setBound(t.Context()); err != nil {
			t.Fatal(err)
		}
		var idle string
		if err := session.QueryRow(t.Context(), "SELECT current_setting('idle_session_timeout')").Scan(&idle); err != nil {
			t.Fatal(err)
		}
		if idle != want {
			t.Errorf("idle_session_timeout is %q, want %s", idle, want)
		}
	}
}
