package log_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Producers, ticks and consumers that do not wait for the log of the server, and a crash right after a fetch: what was
// handed out is still there, and is handed out again.
func TestAClaimIsDurable(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"})
	f := logOn(t, s)
	f.subscribe("s")
	// Sessions end with the crash, so this test has none in a pool.
	connect := func() *pgx.Conn {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), s.URL())
		f.ok(err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	conn := connect()
	f.append(conn, "a", "b")
	f.exec(conn, "CALL "+f.name+"_tick()")
	p, err := fetch(t.Context(), conn, f.name, "s", uuid.New(), lease, 1)
	f.ok(err)
	f.want("handed out", p.payloads(), "a")
	f.ok(s.Crash())
	f.ok(s.Restart(t.Context()))

	conn = connect()
	again, err := fetch(t.Context(), conn, f.name, "s", p.token, lease, 1)
	f.ok(err)
	f.want("handed out again", again.payloads(), "a")
	result, err := settle(t.Context(), conn, f.name, "s", p.token, p.upto)
	f.ok(err)
	if result != "settled" {
		t.Errorf("settle: %s", result)
	}
	f.append(conn, "c")
	f.exec(conn, "CALL "+f.name+"_tick()")
	f.ok(s.Crash())
	f.ok(s.Restart(t.Context()))

	conn = connect()
	again, err = fetch(t.Context(), conn, f.name, "s", p.token, lease, 10)
	f.ok(err)
	f.want("what was settled stays settled", again.payloads(), "b")
	f.Pool.Reset()
}

// The caller's own choice stays if it is a stronger one, and comes back with its next transaction.
func TestHowDurableAClaimIs(t *testing.T) {
	t.Parallel()
	f := newLog(t)
	f.subscribe("s")
	for chosen, want := range map[string]string{"off": "on", "on": "on", "local": "local",
		"remote_apply": "remote_apply"} {
		tx := f.begin()
		f.exec(tx, "SELECT set_config('synchronous_commit', $1, true)", chosen)
		_, err := fetch(f.Context(), tx, f.name, "s", uuid.New(), lease, 1)
		f.ok(err)
		if got := value[string](f, tx, "SHOW synchronous_commit"); got != want {
			t.Errorf("synchronous_commit is %s after a fetch, and was %s: want %s", got, chosen, want)
		}
		f.ok(tx.Rollback(f.Context()))
	}
}
