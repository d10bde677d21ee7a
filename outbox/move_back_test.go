package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// newMoved is an outbox of rows that has moved to a log, with the subscription main.
func newMoved(t *testing.T) *fixture {
	t.Helper()
	f := newMoving(t)
	f.move()
	return f
}

func (f *fixture) moveBack() int64 {
	f.Helper()
	n, err := f.box.MoveBack(f.Context(), f.Pool, outbox.MoveBackOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return n
}

// What is parked, not settled or scheduled becomes rows, in the order of its keys, and what a producer writes then is
// behind it. What was delivered does not come again.
func TestAnOutboxMovesBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	r := f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			switch string(m.Payload) {
			case "d1":
				return workqueue.Permanent(errors.New("no"))
			case "r1":
				return workqueue.RetryAfter(time.Hour, errors.New("not yet"))
			}
			return nil
		})
	})
	first := f.send(f.box, inKey("dead", "d1"), inKey("retried", "r1"), inKey("", "done"), inKey("dead", "d2"),
		inKey("retried", "r2"))
	f.until("the first are parked or settled", func() bool {
		return f.parked("main", "status = 3") == 1 && f.parked("main", "status = 0") == 3 &&
			f.count("SELECT count(*) FROM "+f.table+"_position WHERE (upto).n IS NOT NULL") == 0
	})
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	later := inKey("later", "l1")
	later.ScheduledAt = time.Now().Add(24 * time.Hour)
	scheduled := f.send(f.box, inKey("dead", "d3"), inKey("retried", "r3"), later, inKey("later", "l2"),
		inKey("free", "f1"))[2].ID

	if s := f.moveState(); s.Stage != outbox.AfterMove || s.Back != "" {
		t.Errorf("before: %+v", s)
	}
	if n := f.moveBack(); n != 9 {
		t.Errorf("%d messages became rows, want 9", n)
	}
	if n := f.moveBack(); n != 0 {
		t.Errorf("%d messages became rows when called again", n)
	}
	if s := f.moveState(); s.Stage != outbox.BeforeMove || s.Unfinished != 8 || s.Blocking != 1 {
		t.Errorf("afterwards: %+v", s)
	}
	f.send(f.box, inKey("dead", "d4"), inKey("retried", "r4"), inKey("later", "l3"), inKey("free", "f2"))
	for _, of := range []string{"parked WHERE completed_at IS NULL", "later", "subscription"} {
		if left := f.count("SELECT count(*) FROM " + f.table + "_" + of); left != 0 {
			t.Errorf("%d are left of %s", left, of)
		}
	}

	var got []string
	deliver := func(what string, want ...string) {
		t.Helper()
		got = nil
		f.drainRows(f.opened(outbox.Rows), func(_ context.Context, m *outbox.Delivery) error {
			got = append(got, fmt.Sprint(string(m.Payload), " ", m.Attempt))
			return nil
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: delivered %q, want %q", what, got, want)
		}
	}
	rows := f.opened(outbox.Rows).Table().On(f.Pool)
	deliver("what is due", "f1 1", "f2 1")
	if _, err := rows.Redrive(t.Context(), []uuid.UUID{first[0].ID}, "test"); err != nil {
		t.Fatal(err)
	}
	deliver("dead", "d1 1", "d2 1", "d3 1", "d4 1")
	f.exec("SELECT * FROM "+f.Schema+".outbox_run_now($1)", []uuid.UUID{first[1].ID})
	deliver("retried", "r1 2", "r2 1", "r3 1", "r4 1")
	f.exec("SELECT * FROM "+f.Schema+".outbox_run_now($1)", []uuid.UUID{scheduled})
	deliver("later", "l1 1", "l2 1", "l3 1")
}

// After the way back the log takes no messages, in whatever way. A transaction that began before it is told to repeat.
func TestMessagesAreRefusedAfterTheWayBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	before, err := f.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Rollback(context.Background()) })
	if _, err := before.Exec(t.Context(), "SELECT count(*) FROM "+f.table); err != nil {
		t.Fatal(err)
	}
	f.moveBack()
	_, err = f.box.Enqueue(t.Context(), workqueue.Pgx(before), inKey("k", "1"))
	f.refusedWith("a transaction from before the way back", err, "40001")
	later := inKey("k", "1")
	later.ScheduledAt = time.Now().Add(time.Hour)
	for _, m := range []outbox.Message{inKey("k", "1"), later} {
		err = pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
			_, err := f.opened(outbox.Log).Enqueue(t.Context(), workqueue.Pgx(tx), m)
			return err
		})
		f.refusedWith("a producer of the log", err, "55000")
	}
	_, err = f.Pool.Exec(t.Context(), "SELECT "+f.table+"_append('t', '')")
	f.refusedWith("in SQL", err, "55000")
	f.send(f.box, inKey("k", "1"))
	f.send(f.opened(outbox.Rows), inKey("k", "2"))
	if n := f.rowsLeft("true"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	f.inTx(func(tx pgx.Tx) error { return f.opened(outbox.Rows).Pause(f.Context(), workqueue.Pgx(tx), "u") })
	f.inTx(func(tx pgx.Tx) error { return f.opened(outbox.Rows).Resume(f.Context(), workqueue.Pgx(tx), "u") })

	// It moves to the log again, once that is empty.
	f.exec("CALL " + f.table + "_trim('0')")
	if s := f.move(); s.Moved != 2 {
		t.Errorf("moved again: %+v", s)
	}
	_, err = f.Pool.Exec(t.Context(), "SELECT "+f.Schema+".outbox_enqueue('t', '')")
	f.refusedWith("rows after that", err, "55000")
	f.send(f.opened(outbox.Log), inKey("k", "3"))
	f.send(f.box, inKey("k", "4"))
	if n := f.moveBack(); n != 4 {
		t.Errorf("%d messages became rows again, want 4", n)
	}
}

// A dedup key that the log has is refused among the rows, whether its message has ended, waits or is scheduled.
func TestDedupKeysHoldOnTheWayBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	unique := func(dedupKey string) outbox.Message { return outbox.Message{Topic: "t", DedupKey: dedupKey} }
	later := unique("later")
	later.ScheduledAt = time.Now().Add(time.Hour)
	got := make(chan string, 10)
	r := f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { got <- ""; return nil })
	})
	was := f.send(f.box, unique("ended"), later)
	receive(t, got)
	f.until("it is settled", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+"_position WHERE (upto).n IS NOT NULL") == 0
	})
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	was = append(was, f.send(f.box, unique("waits"))...)
	if n := f.moveBack(); n != 2 {
		t.Errorf("%d messages became rows, want 2", n)
	}
	for _, box := range []*outbox.Outbox{f.box, f.opened(outbox.Rows)} {
		again := f.send(box, unique("ended"), unique("later"), unique("waits"), unique("new"))
		for i := range was {
			if !again[i].Duplicate || again[i].ID != was[i].ID {
				t.Errorf("key %d: %+v, want a duplicate of %s", i, again[i], was[i].ID)
			}
		}
		if again[3].Duplicate != (box != f.box) {
			t.Errorf("a new key: %+v", again[3])
		}
	}
	if n := f.rowsLeft("completed_at IS NULL"); n != 3 {
		t.Errorf("%d rows have not ended, want 3", n)
	}
}

// Ids are unique in a topic only if the application makes them so: a message that moves takes no key of another topic.
func TestDedupKeysOfOtherTopicsStayOnTheWayBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	got := make(chan string, 10)
	r := f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { got <- ""; return nil })
	})
	id := uuid.New()
	f.send(f.box, outbox.Message{ID: id, Topic: "ended", DedupKey: "k"})
	receive(t, got)
	f.until("it is settled", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+"_position WHERE (upto).n IS NOT NULL") == 0
	})
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	f.send(f.box, outbox.Message{ID: id, Topic: "waits"})
	f.moveBack()
	if again := f.send(f.box, outbox.Message{Topic: "ended", DedupKey: "k"}); !again[0].Duplicate {
		t.Errorf("%+v, want a duplicate of %s", again[0], id)
	}
}

// Producers wait while the outbox moves back, and not longer for dedup keys of messages that have ended. Those of
// parked messages are looked for before.
func TestTheWayBackReadsFewDedupKeys(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	all := pgtest.Size(20_000, 200_000)
	f.inTx(func(tx pgx.Tx) error { // without the trigger that looks each of them up among the rows
		if _, err := tx.Exec(t.Context(), "SET LOCAL session_replication_role = replica"); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), "INSERT INTO "+f.table+"_dedup (topic, dedup_key, id) "+
			"SELECT 't', n::text, gen_random_uuid() FROM generate_series(1, $1) AS n", all)
		return err
	})
	r := f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return workqueue.Permanent(errors.New("no")) })
	})
	f.send(f.box, outbox.Message{Topic: "t", DedupKey: "parked"})
	f.until("it is parked", func() bool { return f.parked("main", "status = 3") == 1 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	later := outbox.Message{Topic: "t", DedupKey: "later", ScheduledAt: time.Now().Add(time.Hour)}
	f.send(f.box, outbox.Message{Topic: "t", DedupKey: "waits"}, later)
	f.exec("ANALYZE " + f.table + "_dedup")
	f.inTx(func(tx pgx.Tx) error {
		var scans, read int
		if err := tx.QueryRow(t.Context(), "SELECT "+f.table+"_give_back()").Scan(nil); err != nil {
			return err
		}
		err := tx.QueryRow(t.Context(), "SELECT seq_scan, seq_tup_read FROM pg_stat_xact_user_tables "+
			"WHERE relid = $1::regclass", f.table+"_dedup").Scan(&scans, &read)
		if scans > 1 || read > all+3 {
			t.Errorf("it read %d dedup keys in %d scans, want one scan, which is before the locks", read, scans)
		}
		return err
	})
	for _, key := range []string{"parked", "waits", "later", "1"} {
		if again := f.send(f.opened(outbox.Rows), outbox.Message{Topic: "t", DedupKey: key}); !again[0].Duplicate {
			t.Errorf("the key %s was free", key)
		}
	}
	if n := f.rowsLeft("dedup_key IN ('parked', 'waits', 'later')"); n != 3 {
		t.Errorf("%d rows have their keys, want 3", n)
	}
}

// Several messages of one id move back with their dedup keys, and get ids of their own.
func TestMessagesOfOneIDMoveBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	id := uuid.New()
	for _, key := range []string{"a", "b", "", "c"} {
		f.send(f.box, outbox.Message{ID: id, Topic: "t", DedupKey: key})
	}
	if n := f.moveBack(); n != 4 {
		t.Errorf("%d messages became rows, want 4", n)
	}
	for _, key := range []string{"a", "b", "c"} {
		if again := f.send(f.opened(outbox.Rows), outbox.Message{Topic: "t", DedupKey: key}); !again[0].Duplicate {
			t.Errorf("the key %s was free", key)
		}
	}
	if n := f.rowsLeft("id = '" + id.String() + "'"); n != 1 {
		t.Errorf("%d rows have the id, want 1", n)
	}
}

// A message that a clock has dated ahead, which was put back since, is due at once, as it was in the log.
func TestMessagesOfAnotherTimeMoveBack(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	f.exec("INSERT INTO " + f.table + " (topic, payload, created_at) " +
		"VALUES ('t', '', now() + interval '1 day'), ('t', '', 'infinity'), ('t', '', '-infinity')")
	f.moveBack()
	var got atomic.Int32
	f.drainRows(f.opened(outbox.Rows), func(context.Context, *outbox.Delivery) error { got.Add(1); return nil })
	if got.Load() != 3 {
		t.Errorf("%d were delivered, want 3", got.Load())
	}
}

// Whoever has written to one of the tables and then writes to another is not cancelled as a deadlock with a switch that
// has locked that one: the switch lets it pass, however long it may wait.
func TestASwitchLetsWritersPass(t *testing.T) {
	t.Parallel()
	once := inKey("", "2")
	once.DedupKey = "d"
	for name, c := range map[string]struct {
		prepare func(*testing.T) *fixture
		first   func(*fixture, workqueue.Tx) error // uses the table
		table   string
		second  func(*fixture, workqueue.Tx) error
		change  func(*fixture) error
	}{
		"to the log": {newMoving, func(f *fixture, tx workqueue.Tx) error {
			return f.opened(outbox.Rows).Resume(f.Context(), tx, "t")
		}, "outbox_topic", func(f *fixture, tx workqueue.Tx) error {
			_, err := f.opened(outbox.Rows).Enqueue(f.Context(), tx, once)
			return err
		}, func(f *fixture) error {
			_, err := f.box.Move(f.Context(), f.Pool, outbox.MoveOptions{Subscription: "main", LockTimeout: patience})
			return err
		}},
		"back": {newMoved, func(f *fixture, tx workqueue.Tx) error {
			_, err := f.opened(outbox.Log).Enqueue(f.Context(), tx, inKey("", "1"))
			return err
		}, "outbox_log", func(f *fixture, tx workqueue.Tx) error {
			_, err := f.opened(outbox.Log).Enqueue(f.Context(), tx, once)
			return err
		}, func(f *fixture) error {
			_, err := f.box.MoveBack(f.Context(), f.Pool, outbox.MoveBackOptions{LockTimeout: patience})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.prepare(t)
			held, err := f.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = held.Rollback(context.Background()) })
			if err := c.first(f, workqueue.Pgx(held)); err != nil {
				t.Fatal(err)
			}
			moved := make(chan error, 1)
			go func() { moved <- c.change(f) }()
			f.until("the switch waits", func() bool { return pgtest.SomebodyWaits(t, f.Pool, f.Schema+"."+c.table) })
			pgtest.Pass(1200 * time.Millisecond) // its own look for deadlocks is over
			if err := c.second(f, workqueue.Pgx(held)); err != nil {
				t.Errorf("who has written before is refused: %v", err)
			}
			if err := held.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if err := receive(t, moved); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of two who move the outbox back at once, the second has nothing to do.
func TestTwoMoveBackAtOnce(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	held := f.hold()
	moved := make(chan int64, 2)
	for range 2 {
		go func() {
			n, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{LockTimeout: time.Hour})
			if err != nil {
				t.Error(err)
			}
			moved <- n
		}()
	}
	f.until("both wait", func() bool {
		return f.count("SELECT count(*) FROM pg_locks WHERE relation = to_regclass($1) AND NOT granted",
			f.Schema+".outbox") == 2
	})
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := receive(t, moved) + receive(t, moved); n != 1 {
		t.Errorf("%d messages became rows, want 1", n)
	}
}

// A consumer that has a message in hand settles it before, and gets no more. Where it does not, nothing changes.
func TestTheWayBackWaitsForMessagesInHand(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	f.send(f.box, inKey("k", "1"), inKey("k", "2"))
	hold, got := make(chan struct{}), make(chan string, 10)
	slow := workqueue.WorkerOptions{ClaimLimit: 1, Lease: 10 * time.Minute, HandlerTimeout: time.Hour}
	f.subscriber("main", slow, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			got <- string(m.Payload)
			<-hold
			return nil
		})
	})
	receive(t, got)
	paused := func() int { return f.count("SELECT count(*) FROM " + f.table + "_subscription WHERE paused") }
	_, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{LockTimeout: 50 * time.Millisecond,
		Wait: 100 * time.Millisecond})
	if !errors.Is(err, outbox.ErrSwitch) || !strings.Contains(err.Error(), "in hand") {
		t.Errorf("beside a page in hand: %v", err)
	}
	if s := f.moveState(); s.Stage != outbox.AfterMove || paused() != 0 {
		t.Errorf("state: %+v, %d are paused", s, paused())
	}
	moved := make(chan int64, 1)
	go func() {
		n, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{LockTimeout: 50 * time.Millisecond,
			Wait: patience})
		if err != nil {
			t.Error(err)
		}
		moved <- n
	}()
	f.until("the subscription is paused", func() bool { return paused() == 1 })
	close(hold)
	n := int(receive(t, moved))
	if settled := 1 + len(got); n+settled != 2 || f.rowsLeft("completed_at IS NULL") != n {
		t.Errorf("%d were settled and %d became rows, want 2 together", settled, n)
	}
}

// A mover that dies in the switch has changed nothing, and one that dies before it has paused the subscription. Whoever
// calls again goes on.
func TestAWayBackThatDiedGoesOn(t *testing.T) {
	t.Parallel()
	f := newMoved(t)
	held := f.hold()
	f.inTx(func(tx pgx.Tx) error {
		_, err := f.box.PauseSubscription(t.Context(), workqueue.Pgx(tx), "main")
		return err
	})
	ended := make(chan error, 1)
	go func() {
		_, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{LockTimeout: time.Hour})
		ended <- err
	}()
	f.until("its session is ended while it waits", func() bool {
		return f.count("SELECT count(*) FROM (SELECT pg_terminate_backend(pid) AS is FROM pg_locks "+
			"WHERE relation = to_regclass($1) AND NOT granted) AS t WHERE t.is", f.Schema+".outbox") > 0
	})
	if err := receive(t, ended); err == nil {
		t.Error("the way back has ended without its session")
	}
	if s := f.moveState(); s.Stage != outbox.AfterMove || s.Back != "" {
		t.Errorf("state: %+v", s)
	}
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.moveBack(); n != 1 || f.rowsLeft("status = 0") != 1 {
		t.Errorf("%d messages became rows, want 1", n)
	}
}

// What rows cannot have is named before anything changes.
func TestWhatHindersTheWayBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*fixture)
		want    string
	}{
		"two destinations": {func(f *fixture) { f.subscribe("audit", 1) }, "subscriptions audit, main"},
		"topics": {func(f *fixture) {
			f.exec("UPDATE " + f.table + "_subscription SET topics = '{t}', prefixes = '{}'")
		}, "subscription main has topics or headers"},
		"too many messages": {func(f *fixture) {
			f.exec("INSERT INTO " + f.table + " (topic, payload) SELECT 't', '' FROM generate_series(1, 5001)")
		}, "5001 messages are not delivered"},
		"no destination": {func(f *fixture) { f.exec("SELECT " + f.table + "_unsubscribe('main')") }, "(none)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newMoved(t)
			c.arrange(f)
			if s := f.moveState(); !strings.Contains(s.Back, c.want) {
				t.Errorf("state: %+v", s)
			}
			_, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{})
			f.refusedWith(name, err, "55000")
			f.send(f.opened(outbox.Log), inKey("k", "1")) // nothing has changed
		})
	}
	f := newMoving(t)
	if n := f.moveBack(); n != 0 {
		t.Errorf("%d messages moved back from rows", n)
	}
	f.send(f.box, inKey("k", "1"))
	f.exec("SELECT "+f.table+"_take_over('main')", []any{}...)
	_, err := f.box.MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{})
	f.refusedWith("a move that has not ended", err, "55000")
	if _, err := f.opened(outbox.Log).MoveBack(t.Context(), f.Pool, outbox.MoveBackOptions{}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("another storage: %v", err)
	}
}

// Producers write all the time, and relays of both kinds and the way back are killed. Everything that was committed is
// delivered, in the order of its key, and repeated only by deaths.
func TestAMoveBackUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLoad(newMoving(t))
	f := l.fixture
	f.exec("SELECT " + f.table + "_take_over('main', 2)")
	f.move()
	l.begin()
	some := pgtest.Size(100, 300)
	l.written("messages are written to the log", some)
	mover := f.killing("back", new(atomic.Int64))
	f.until("the outbox has moved back", func() bool {
		l.disconnect()
		return f.count("SELECT count(*) FROM "+f.table+"_state WHERE successor IS NULL") == 1
	})
	l.written("rows are written afterwards", some)
	l.end()
	mover()
	f.relay(workqueue.WorkerOptions{Lease: time.Second}, func(r *outbox.Relay) { r.HandleAll(l.deliver) })
	f.until("everything is delivered", func() bool { return f.rowsLeft("completed_at IS NULL") == 0 })
	l.reconcile()
}
