package workqueue_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// leaveSilent leaves a transaction open that has written a row and relies on an announcer to announce it. All other
// rows are done.
func (r *rig) leaveSilent() (late pgx.Tx, ids []uuid.UUID) {
	r.Helper()
	r.eventually("a transaction that is silent", func() bool {
		r.wakeAnnouncer()
		var err error
		if late, err = r.Eyes.Begin(r.Context()); err == nil {
			ids, err = r.insertIn(late, workqueue.NewRow{Values: []any{"late", ""}})
		}
		if err != nil {
			r.Fatal(err)
		}
		if !r.silent(late) {
			late.Rollback(r.Context())
			return false
		}
		return true
	})
	r.Cleanup(func() { late.Rollback(context.Background()) })
	r.eventually("all others are done", func() bool { return r.count("status <> 2") == 0 })
	return late, ids
}

// endAnnouncer makes the server end the announcer's session, and returns when it has ended.
func (r *rig) endAnnouncer() {
	r.Helper()
	pid := 0
	r.eventually("the announcer's session has ended", func() bool {
		if pid == 0 {
			pid = r.announcer()
		}
		r.exec("SELECT pg_terminate_backend($1) WHERE $1 > 0", pid)
		return pid > 0 && r.announcer() != pid
	})
}

// Rows that were silent for an announcer whose session has ended are found by the next announcer. It is in the same
// process, which tries again by itself: nobody writes anything else that would wake it.
func TestAnAnnouncerComesBackForWhatItOwes(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	late, ids := r.leaveSilent()
	slept := strings.Count(log.String(), "announcer asleep")
	r.endAnnouncer()
	r.eventually("it says why", func() bool { return strings.Contains(log.String(), "announcer failed") })
	if strings.Count(log.String(), "announcer asleep") > slept {
		t.Error("an announcer whose session has ended says that it is asleep, and it owes rows")
	}
	pgtest.Pass(600 * time.Millisecond) // the worker has looked for the last time
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, ids...)
}

// If its process stops before that, it announces at once.
func TestAnAnnouncerThatStopsAnnouncesWhatItOwes(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	w := r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	late, _ := r.leaveSilent()
	heard := r.listener()
	r.endAnnouncer()
	r.eventually("it says why", func() bool { return strings.Contains(log.String(), "announcer failed") })
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
	heard.awaitDue(t, 0)
}

// It also tries again if its first try finds the lock taken by a session that announces no longer, such as its own
// session, which the server has not ended yet.
func TestAnAnnouncerComesBackWhileItsSessionLingers(t *testing.T) {
	t.Parallel()
	r, _ := newAnnouncerRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	late, ids := r.leaveSilent()
	lingers, err := r.Eyes.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lingers.Rollback(context.Background())
	taken := make(chan error, 1)
	go func() { // it waits for the lock, and so gets it before the announcer can
		_, err := lingers.Exec(context.Background(), "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' announcer', 0))",
			r.Table.Name())
		taken <- err
	}()
	r.eventually("the other session has the lock", func() bool {
		r.exec("SELECT pg_terminate_backend($1) WHERE $1 NOT IN (0, $2)", r.announcer(),
			int(lingers.Conn().PgConn().PID()))
		return len(taken) == 1
	})
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	pgtest.Pass(2500 * time.Millisecond) // the announcer has tried once at least
	if err := errors.Join(lingers.Rollback(t.Context()), late.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, ids...)
}

// A new announcer tells listeners to look at everything, because an earlier one may have left rows unannounced.
func TestANewAnnouncerHasEverybodyLookAtEverything(t *testing.T) {
	t.Parallel()
	r, _ := newAnnouncerRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	heard := r.listener()
	r.wakeAnnouncer()
	heard.awaitDue(t, 0)
}

// A new announcer keeps looking as far back as transactions may have written that were silent for the one before.
func TestANewAnnouncerLooksAtWhatTheLastOneOwes(t *testing.T) {
	t.Parallel()
	r, _ := newAnnouncerRig(t, rigOptions{})
	occupy := r.startWithOnePlace()
	late, ids := r.leaveSilent()
	free := occupy()
	var due int64
	if err := late.QueryRow(t.Context(),
		"SELECT (extract(epoch FROM now()) * 1000000)::bigint").Scan(&due); err != nil {
		t.Fatal(err)
	}
	heard := r.listener()
	r.endAnnouncer()
	heard.awaitDue(t, 0)
	heard = r.listener() // hears only what is sent from now on
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard.awaitDue(t, due)
	free()
	r.awaitStatus(workqueue.Done, ids...)
}

// While an announcer waits for a silent transaction, it announces once a second everything that it may have overlooked.
// When the transaction has ended, it does so for the last time.
func TestAnAnnouncerThatFallsAsleepAnnouncesWhatItMayNotSee(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for range 2 {
		late, _ := r.leaveSilent()
		r.eventually("the lock is released", func() bool { return r.announcer() == 0 })
		slept := strings.Count(log.String(), "announcer asleep")
		heard := r.listener()
		for range 3 {
			heard.await(t, "what is announced once a second")
		}
		if err := late.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.eventually("the announcer is asleep", func() bool {
			return strings.Count(log.String(), "announcer asleep") > slept
		})
		r.exec("SELECT pg_notify($1, 'after it')", r.Table.Name())
		if heard.await(t, "the last announcement") == "after it" {
			// On a busy machine the server may have ended the announcer's session, which was idle for a second: it
			// tries again.
			heard.await(t, "the last announcement, which the announcer owes")
		}
	}
}

// An announcer sees rows of every lane and announces each. It takes less than the second after which it would announce
// everything anyway.
func TestAnAnnouncerSeesLanes(t *testing.T) {
	t.Parallel()
	r, _ := newAnnouncerRig(t, rigOptions{spec: byTopic})
	r.serving(lanes("warm up", "load 0", "load 1",
		"load 2")).startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	r.eventually("four announcements within a second", func() bool {
		r.wakeAnnouncer()
		pid, heard := r.announcer(), r.listener()
		r.load(300, nil)
		r.exec("SELECT pg_notify($1, 'after it')", r.Table.Name())
		var times []time.Time
		for {
			n, err := heard.conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "after it" {
				break
			}
			if int(n.PID) == pid {
				times = append(times, time.Now())
			}
		}
		for i := 3; i < len(times); i++ {
			if times[i].Sub(times[i-3]) < 900*time.Millisecond {
				return true
			}
		}
		return false
	})
}

// A pooler tells its clients a process id that is not that of their session. A process with such a connection announces
// nothing.
func TestWhoIsBehindAPoolerDoesNotAnnounce(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{pool: func(c *pgxpool.Config) {
		c.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
			return &renumbered{Conn: conn}, nil
		}
	}})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for range 4 { // seconds, in which an announcer would have woken up
		r.awaitStatus(workqueue.Done, r.load(200, nil)...)
		pgtest.Pass(300 * time.Millisecond)
	}
	if strings.Contains(log.String(), "announcer awake") {
		t.Error("an announcer is awake behind a pooler")
	}
}

// renumbered is a connection whose client is told a wrong process id.
type renumbered struct {
	net.Conn
	done bool
}

// Read implements net.Conn.
func (c *renumbered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if at := bytes.Index(b[:n], []byte{'K', 0, 0, 0, 12}); at >= 0 && at+9 <= n && !c.done {
		c.done = true
		binary.BigEndian.PutUint32(b[at+5:], 1+binary.BigEndian.Uint32(b[at+5:]))
	}
	return n, err
}
