package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// hold takes one of the table's two locks in a session of its own: the announcer's lock, or that of silent
// transactions.
func (r *rig) hold(lock string) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.URL)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(r.Context(), "SELECT pg_advisory_lock(hashtextextended($1, 0))", r.Table.Name()+" "+
		lock); err != nil {
		r.Fatal(err)
	}
}

// silent reports whether a transaction holds the lock by which the announcer knows of it.
func (r *rig) silent(tx pgx.Tx) (silent bool) {
	r.Helper()
	err := tx.QueryRow(r.Context(),
		`SELECT EXISTS (SELECT FROM pg_locks AS l, hashtextextended($1 || ' silent', 0) AS k (lock)
		WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory' AND l.objsubid = 1
		  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid)`, r.Table.Name()).Scan(&silent)
	if err != nil {
		r.Fatal(err)
	}
	return silent
}

// A transaction is silent if an announcer is awake, if it is young, and if it can take the lock by which the announcer
// knows of it. In any other case it notifies by itself.
func TestWhoIsSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		held   []string
		age    time.Duration
		silent bool
	}{
		{"nobody is awake", nil, 0, false},
		{"somebody is awake", []string{"announcer"}, 0, true},
		{"the transaction is old", []string{"announcer"}, 700 * time.Millisecond, false},
		{"the lock cannot be had", []string{"announcer", "silent"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			for _, lock := range c.held {
				r.hold(lock)
			}
			heard := r.listener()
			for try := 0; ; try++ {
				tx, err := r.Eyes.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback(context.Background())
				if c.age > 0 {
					pgtest.Pass(c.age)
				}
				_, err = r.insertIn(tx, workqueue.NewRow{Values: []any{"a", ""}})
				if err != nil {
					t.Fatal(err)
				}
				var young bool // on an overloaded machine a transaction may get old
				if err := tx.QueryRow(t.Context(),
					"SELECT clock_timestamp() < now() + interval '500 milliseconds'").Scan(&young); err != nil {
					t.Fatal(err)
				}
				if c.silent && !young && try < 20 {
					tx.Rollback(t.Context())
					continue
				}
				if silent := r.silent(tx); silent != c.silent {
					t.Errorf("it has left the notification to the announcer: %v, want %v", silent, c.silent)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				break
			}
			r.exec("SELECT pg_notify($1, 'after it')", r.Table.Name())
			if notified := heard.await(t, "a notification") != "after it"; notified == c.silent {
				t.Errorf("it has notified: %v, want %v", notified, !c.silent)
			}
		})
	}
}
