package workqueue_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// newAnnouncerRig is a rig whose log says when its announcers wake up and fall asleep.
func newAnnouncerRig(t *testing.T, o rigOptions) (*rig, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	o.telemetry = func(tel *workqueue.Telemetry) {
		tel.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return newRig(t, o), log
}

// announcer returns the session that has the table's announcer lock; 0: no announcer is awake.
func (r *rig) announcer() int {
	r.Helper()
	return ask[int](r,
		`SELECT coalesce(max(l.pid), 0) FROM pg_locks AS l, hashtextextended($1 || ' announcer', 0) AS k (lock)
		WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
		  AND l.classid = (k.lock >> 32 & 4294967295)::oid AND l.objid = (k.lock & 4294967295)::oid`, r.Table.Name())
}

// producers returns a pool of sessions like that of an application. The caller closes it.
func (r *rig) producers(n int32) *pgxpool.Pool {
	r.Helper()
	config := r.Eyes.Config()
	config.MaxConns = n
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		r.Fatal(err)
	}
	return pool
}

// An insertion is one insert of a load, and what its transaction does afterwards.
type insertion func(i int, tx pgx.Tx)

// load inserts rows from several sessions, one in each transaction, until it is told to stop or has inserted n.
func (r *rig) load(n int, then insertion) (ids []uuid.UUID) {
	r.Helper()
	const sessions = 4
	pool := r.producers(sessions)
	defer pool.Close()
	var mu sync.Mutex
	var producers sync.WaitGroup
	for s := range sessions {
		producers.Go(func() {
			for i := s; i < n; i += sessions {
				var inserted []uuid.UUID
				err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) (err error) {
					inserted, err = r.insertIn(tx, workqueue.NewRow{DueAt: dueLater(i),
						Values: []any{fmt.Sprintf("load %d", i%3), ""}})
					if err == nil && then != nil {
						then(i, tx)
					}
					return err
				})
				if err != nil {
					r.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, inserted...)
				mu.Unlock()
			}
		})
	}
	producers.Wait()
	return ids
}

// dueLater is a time in the future for every fifth row.
func dueLater(i int) time.Time {
	if i%5 != 4 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(i%40) * 10 * time.Millisecond)
}

// wakeAnnouncer inserts rows until an announcer is awake.
func (r *rig) wakeAnnouncer() {
	r.Helper()
	r.eventually("an announcer that is awake", func() bool {
		r.load(60, nil)
		return r.announcer() != 0
	})
}

// Rows come in bursts with pauses between them, in which announcers fall asleep and wake up again. Some transactions
// stay open after their insert. Workers poll once an hour, so a wake that is lost is a row that stays.
func TestNoWakeIsLostBetweenAsleepAndAwake(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct {
		rig     rigOptions
		workers int
		lanes   [][]any
	}{
		"one worker":    {workers: 1},
		"three workers": {workers: 3},
		"lanes": {rig: rigOptions{spec: byTopic}, workers: 2, lanes: lanes("warm up", "load 0", "load 1",
			"load 2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log := newAnnouncerRig(t, o.rig)
			for range o.workers {
				r.serving(o.lanes).startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
			}
			sleeps := pgtest.Size(1, 3)
			for round := range 3 * sleeps {
				if round%3 == 0 {
					r.wakeAnnouncer()
				}
				ids := r.load(20+rand.IntN(pgtest.Size(100, 300)), func(i int, _ pgx.Tx) {
					switch {
					case i%97 == 3:
						pgtest.Pass(700 * time.Millisecond)
					case i%9 == 0:
						pgtest.Pass(rand.N(150 * time.Millisecond))
					}
				})
				r.awaitStatus(workqueue.Done, ids...)
				if round%3 == 2 {
					r.eventually("all announcers asleep", func() bool { return r.announcer() == 0 })
				} else {
					pgtest.Pass(rand.N(2500 * time.Millisecond))
				}
			}
			r.eventually("everything done", func() bool { return r.count("status <> 2") == 0 })
			awake := strings.Count(log.String(), "announcer awake")
			if awake < sleeps {
				t.Errorf("the announcer was awake %d times: the test shows nothing", awake)
			}
			t.Logf("%d rows, awake %d times", r.count("true"), awake)
		})
	}
}

// A transaction was silent and commits long afterwards. The announcer stays awake until then, or its rows are found
// when it has fallen asleep.
func TestASilentTransactionThatStaysOpenIsAnnounced(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	occupy := r.startWithOnePlace()
	late, ids := r.leaveSilent()
	slept := strings.Count(log.String(), "announcer asleep")
	var began time.Time
	if err := late.QueryRow(t.Context(), "SELECT now()").Scan(&began); err != nil {
		t.Fatal(err)
	}
	r.awaitStatus(workqueue.Done, r.load(300, nil)...)
	r.eventually("the lock is released", func() bool { return r.announcer() == 0 })
	r.awaitStatus(workqueue.Done, r.insert("others notify by themselves")...)
	if n := strings.Count(log.String(), "announcer asleep") - slept; n > 0 {
		t.Errorf("the announcer has fallen asleep %d times, and a silent transaction is open", n)
	}
	due := ask[int64](r, "SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint", began)
	free := occupy()
	heard := r.listener() // hears only what is sent from now on
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard.awaitDue(t, due)
	free()
	r.awaitStatus(workqueue.Done, ids...)
	r.eventually("the announcer is asleep", func() bool {
		return strings.Count(log.String(),
			"announcer asleep") > slept
	})
}

// An announcer whose session is ended in the middle of its work leaves nothing unannounced: it connects again and
// announces what it owes.
func TestAnAnnouncerIsKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for range pgtest.Size(1, 3) {
		r.wakeAnnouncer()
		ids := r.load(300, func(i int, _ pgx.Tx) {
			if i == 150 {
				r.exec("SELECT pg_terminate_backend($1)", r.announcer())
			}
		})
		r.awaitStatus(workqueue.Done, ids...)
	}
}

// A role that does not see all rows cannot announce on behalf of all producers.
func TestWhoSeesAPartOfTheRowsDoesNotAnnounce(t *testing.T) {
	t.Parallel()
	r, log := newAnnouncerRig(t, rigOptions{})
	role := r.Schema + "_part"
	r.exec(fmt.Sprintf(`CREATE ROLE %[1]q LOGIN; GRANT USAGE ON SCHEMA %[2]q TO %[1]q;
		GRANT ALL ON ALL TABLES IN SCHEMA %[2]q TO %[1]q; ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
		CREATE POLICY part ON notes TO %[1]q USING (topic <> 'hidden')`, role, r.Schema))
	t.Cleanup(func() { r.Eyes.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %[1]q; DROP ROLE %[1]q", role)) })
	config := r.Pool.Config()
	config.ConnConfig.User = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r.Pool = pool
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	for range 4 { // seconds, in which an announcer would have woken up
		r.awaitStatus(workqueue.Done, r.load(200, nil)...)
		pgtest.Pass(300 * time.Millisecond)
	}
	if strings.Contains(log.String(), "announcer awake") {
		t.Error("an announcer is awake that does not see all rows")
	}
}

// The server takes the lock from an announcer that is out of reach, and producers notify again by themselves.
func TestAFrozenAnnouncerLosesItsLock(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	r := newRig(t, rigOptions{pool: p.through})
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour}, ackAll)
	r.wakeAnnouncer()
	p.freeze()
	r.eventually("the lock is released", func() bool { return r.announcer() == 0 })
	heard := r.listener()
	ids := r.insert("nobody announces")
	heard.await(t, "the producer's own notification")
	p.thaw()
	r.awaitStatus(workqueue.Done, ids...)
}

// Every listener is told of every row, whether a producer or an announcer notifies.
func TestForeignListenersAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	heard := r.listener()
	r.insert("nobody runs")
	heard.await(t, "the producer's own notification")
	r.load(200, nil)
	if r.announcer() != 0 {
		t.Error("an announcer is awake although no worker runs")
	}
	occupy := r.startWithOnePlace()
	r.wakeAnnouncer()
	defer occupy()()
	for range 5 {
		heard := r.listener() // hears only what is sent from now on
		id := r.insert("announced")[0]
		due := ask[int64](r, "SELECT (extract(epoch FROM due_at) * 1000000)::bigint FROM notes WHERE id = $1", id)
		heard.awaitDue(t, due)
	}
	r.eventually("the announcer is asleep", func() bool { return r.announcer() == 0 })
	heard = r.listener()
	id := r.insert("asleep")[0]
	heard.awaitDue(t, ask[int64](r, "SELECT (extract(epoch FROM due_at) * 1000000)::bigint FROM notes WHERE id = $1",
		id))
}

// startWithOnePlace starts a worker of one row at a time. Its only handler is busy until free is called, so rows stay
// ready and are announced. A row that a worker finds by itself need not be announced.
func (r *rig) startWithOnePlace() (occupy func() (free func())) {
	r.Helper()
	g := newGauge()
	r.startIdle(workqueue.WorkerOptions{PollInterval: time.Hour, Concurrency: 1}, func(ctx context.Context,
		c *noteClaim) error {
		if c.Body.Topic == "occupies" {
			return g.handle(ctx, c)
		}
		return nil
	})
	return func() func() {
		r.insert("occupies")
		r.eventually("the place is taken", func() bool { return g.running.Load() == 1 })
		return func() { close(g.release) }
	}
}

// A foreignListener is a plain LISTEN, as a program in another language would use it.
type foreignListener struct{ conn *pgx.Conn }

func (r *rig) listener() foreignListener {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.URL)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(r.Context(), fmt.Sprintf("LISTEN %q", r.Table.Name())); err != nil {
		r.Fatal(err)
	}
	return foreignListener{conn}
}

func (l foreignListener) await(t *testing.T, what string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return n.Payload
}

// awaitDue waits for a notification that moves listeners back to a row that is due at that time, or further.
func (l foreignListener) awaitDue(t *testing.T, due int64) {
	t.Helper()
	for {
		var at int64
		if _, err := fmt.Sscan(l.await(t, "a row's announcement"), &at); err == nil && at <= due {
			return
		}
	}
}
