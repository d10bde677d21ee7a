package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// The switch waits for as long as it was told, and not for as long as statements of its role may last. One that an
// operator cancels has changed nothing, and is tried again.
func TestTheSwitchOutlivesTheTimeoutsOfItsRole(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	var isLifted atomic.Bool // other statements may last longer than the timeout on a slow machine
	pool := pgtest.NewPool(t, f.DB, pgtest.WithPool(func(c *pgxpool.Config) {
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			timeout := "500ms"
			if isLifted.Load() {
				timeout = "0"
			}
			_, err := conn.Exec(ctx, "SET statement_timeout = '"+timeout+"'")
			return true, err
		}
	}))
	held := f.hold()
	moved := make(chan error, 1)
	go func() {
		_, err := f.box.Move(t.Context(), pool, outbox.MoveOptions{Subscription: "main", LockTimeout: 10 * time.Second,
			Wait: time.Hour})
		moved <- err
	}()
	f.until("the switch has waited for longer than the timeout", func() bool {
		return f.count("SELECT count(*) FROM pg_stat_activity AS a JOIN pg_locks AS l USING (pid) "+
			"WHERE l.relation = to_regclass($1) AND NOT l.granted AND clock_timestamp() - a.query_start > '1 second'",
			f.Schema+".outbox") == 1
	})
	isLifted.Store(true)
	if err := held.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, moved); err != nil {
		t.Fatal(err)
	}
	if n := f.parked("main", "true"); n != 1 {
		t.Errorf("%d rows were parked, want 1", n)
	}
}

// A switch that somebody cancels because it is in the way gives up as one that got no lock: nothing has changed.
func TestASwitchIsCancelled(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	f.hold()
	moved := make(chan error, 1)
	go func() {
		_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main", LockTimeout: time.Hour,
			Wait: time.Hour})
		moved <- err
	}()
	f.until("the switch is cancelled", func() bool {
		return f.count("SELECT count(*) FROM (SELECT pg_cancel_backend(pid) AS is FROM pg_locks "+
			"WHERE relation = to_regclass($1) AND NOT granted) AS c WHERE c.is", f.Schema+".outbox") > 0
	})
	err := receive(t, moved)
	if !errors.Is(err, outbox.ErrSwitch) {
		t.Errorf("a cancelled switch: %v", err)
	}
	f.refusedWith("its cause", err, "57014")
	if s := f.moveState(); s.Stage != outbox.BeforeMove {
		t.Errorf("state: %+v", s)
	}
}

// A producer cannot have its row taken for a dead letter, as it cannot with a message of the log.
func TestAMovedRowHasNoHeaderOfItsOwnThatFailsIt(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	f.exec("INSERT INTO " + f.Schema + `.outbox (topic, payload, headers)
		VALUES ('t', '', '{"txwork-permanent": "no", "a": "b"}')`)
	f.move()
	if n := f.parked("main", `headers = '{"a": "b"}'`); n != 1 {
		t.Errorf("%d rows were parked without the header, want 1", n)
	}
}

// Who does not see all rows may not find that a dedup key is free.
func TestDedupKeysAreNotLookedUpAmongAPart(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	unique := outbox.Message{Topic: "t", DedupKey: "k"}
	f.send(f.box, unique)
	f.drainRows(f.opened(outbox.Rows), func(context.Context, *outbox.Delivery) error { return nil })
	f.move()
	role := "r_" + f.Schema
	f.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		for _, sql := range []string{"REASSIGN OWNED BY " + role + " TO current_user", "DROP OWNED BY " + role,
			"DROP ROLE " + role} {
			if _, err := f.Pool.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	for _, sql := range []string{"GRANT ALL ON SCHEMA {schema} TO " + role,
		"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO " + role,
		"ALTER FUNCTION {schema}.outbox_log_dedup_moved() OWNER TO " + role,
		"ALTER TABLE {schema}.outbox ENABLE ROW LEVEL SECURITY"} {
		f.exec(strings.ReplaceAll(sql, "{schema}", f.Schema))
	}
	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), unique)
		return err
	})
	f.refusedWith("a dedup key of a row that is not seen", err, "42501")
}

// The table of rows may be dropped once they have moved, and before, nothing can move.
func TestAMoveWithoutATableOfRows(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	f.move()
	f.dropRows()
	unique := outbox.Message{Topic: "t", DedupKey: "k"}
	if got := f.send(f.box, unique, unique); got[0].Duplicate || !got[1].Duplicate {
		t.Errorf("messages of the log: %+v", got)
	}
	if s := f.moveState(); s.Stage != outbox.AfterMove || s.Unfinished != 0 {
		t.Errorf("state: %+v", s)
	}

	f = newMoving(t)
	f.dropRows()
	if s := f.moveState(); s.Stage != outbox.BeforeMove || !strings.Contains(s.Hindrance, "no outbox of rows") {
		t.Errorf("without rows: %+v", s)
	}
	_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"})
	f.refusedWith("a move without rows", err, "55000")
	err = pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.box.Enqueue(t.Context(), workqueue.Pgx(tx), inKey("k", "1"))
		return err
	})
	f.refusedWith("a producer that does not know where to write", err, "55000")
}

// dropRows drops the table of rows.
func (f *fixture) dropRows() {
	f.Helper()
	_, down, err := outbox.DDL(f.Schema)
	if err != nil {
		f.Fatal(err)
	}
	f.exec(down)
}

// A transaction moves not many more rows than it was told, or one key as a whole.
func TestATransactionMovesABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	for _, keyed := range []struct {
		key string
		n   int
	}{{"a", 40}, {"b", 40}, {"c", 40}, {"d", 250}, {"e", 10}} {
		msgs := make([]outbox.Message, keyed.n)
		for i := range msgs {
			msgs[i] = inKey(keyed.key, fmt.Sprint(i))
		}
		f.send(f.box, msgs...)
	}
	f.exec("SELECT "+f.table+"_take_over('main')", []any{}...)
	var got []int
	for n, all := -1, 0; n != 0; all += n {
		f.releaseRows()
		n = f.count("SELECT moved FROM " + f.table + "_move_rows('main', 100)")
		got = append(got, n)
	}
	if want := "[80 40 250 10 0]"; fmt.Sprint(got) != want {
		t.Errorf("moved %v, want %s: whole keys, about 100 rows at a time", got, want)
	}
}

// releaseRows lets each key of the rows have one that is released.
func (f *fixture) releaseRows() {
	f.Helper()
	if _, err := f.opened(outbox.Rows).Table().On(f.Pool).Fold(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// Rows that have failed are unblocked, and those that are scheduled are cancelled, wherever they are.
func TestVerbsFindRowsThatMove(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			t.Parallel()
			f := newMoving(t)
			dead := f.send(f.box, inKey("k", "1"), inKey("k", "2"))[0].ID
			f.drainRows(f.opened(outbox.Rows), func(context.Context, *outbox.Delivery) error {
				return workqueue.Permanent(errors.New("no"))
			})
			due := f.send(f.box, inKey("", "due"))[0].ID
			later := inKey("", "later")
			later.ScheduledAt = time.Now().Add(time.Hour)
			was := f.send(f.box, later)[0].ID
			ids := []uuid.UUID{due, was}
			if moved {
				f.move()
				ids = append(ids, f.send(f.box, later)[0].ID)
				r := f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
					r.HandleAll(func(_ context.Context, m *outbox.Delivery) error { return errors.New("not yet") })
				})
				f.until("the dead letter is one again", func() bool { return f.parked("main", "status = 3") == 1 })
				if err := r.end(); err != nil {
					t.Error(err)
				}
			}
			for _, box := range []*outbox.Outbox{f.box, f.opened(outbox.Log)} {
				if !moved && box != f.box {
					break
				}
				err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
					got, err := box.Unblock(t.Context(), workqueue.Pgx(tx), dead)
					if err != nil || len(got) != 1 {
						t.Errorf("unblocked %v, %v", got, err)
					}
					cancelled, err := box.CancelScheduled(t.Context(), workqueue.Pgx(tx), ids...)
					if err != nil || len(cancelled) != len(ids)-1 {
						t.Errorf("cancelled %v of %v, %v: want all but the first", cancelled, ids, err)
					}
					return errRollBack
				})
				if !errors.Is(err, errRollBack) {
					t.Error(err)
				}
			}
		})
	}
}

// Options that are about rows which have ended are those of the rows that stay.
func TestAnOutboxThatMovesKeepsItsRetention(t *testing.T) {
	t.Parallel()
	box, err := outbox.Open(outbox.Options{Storage: outbox.MoveToLog, Retention: time.Hour,
		FailedRetention: 2 * time.Hour, DeleteDone: true})
	if err != nil {
		t.Fatal(err)
	}
	rows := box.Tables()[0].Spec()
	if rows.Retention != time.Hour || rows.FailedRetention != 2*time.Hour || !rows.DeleteDone {
		t.Errorf("rows: %+v", rows)
	}
	if rows.Table != "outbox" || box.Table().Spec().Table != "outbox_log_parked" {
		t.Errorf("tables: %s and %s", rows.Table, box.Table().Spec().Table)
	}
}

// A subscription that is made during a move begins in the log: rows have one destination. The successor is made again
// under its name, and gets rows that are redriven later.
func TestSubscriptionsThatAreMadeDuringAMove(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	f.send(f.box, inKey("k", "row"), inKey("dead", "dead"))
	f.drainRows(f.opened(outbox.Rows), func(_ context.Context, m *outbox.Delivery) error {
		if m.Key == "dead" {
			return workqueue.Permanent(errors.New("no"))
		}
		return errors.New("not yet")
	})
	f.exec("SELECT "+f.table+"_take_over('main')", []any{}...)
	f.send(f.box, inKey("k", "log"))
	f.inTx(func(tx pgx.Tx) error {
		return f.box.Subscribe(t.Context(), workqueue.Pgx(tx),
			outbox.Subscription{Name: "audit", From: outbox.Beginning})
	})
	got := make(chan string, 10)
	f.subscriber("audit", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			got <- string(m.Payload)
			return nil
		})
	})
	if p := receive(t, got); p != "log" {
		t.Errorf("audit got %q, want the message of the log only", p)
	}
	f.move()
	f.inTx(func(tx pgx.Tx) error {
		_, err := f.box.Unsubscribe(t.Context(), workqueue.Pgx(tx), "main", true)
		return err
	})
	_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"})
	f.refusedWith("a move to a successor that was removed", err, "55000")
	f.subscribe("main", 1)
	if s := f.move(); s.Stage != outbox.AfterMove {
		t.Errorf("moved again: %+v", s)
	}
}

// Rows whose key has a limit do not move: the switch is refused, and they are counted.
func TestRowsWithALimitDoNotMove(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	for range 3 { // one is released, two wait
		f.exec("INSERT INTO " + f.Schema + ".outbox (topic, payload, concurrency_key, key_limit, key_policy) " +
			"VALUES ('t', '', 'k', 1, 0)")
		f.releaseRows()
	}
	s := f.moveState()
	if s.Limited != 3 || !strings.Contains(s.Hindrance, "3 rows have a key with a limit") {
		t.Errorf("state: %+v", s)
	}
	_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"})
	f.refusedWith("a move of rows with a limit", err, "55000")
}

// A topic that is paused after the switch would be delivered all the same, so the pause is refused.
func TestTopicsAreNotPausedAfterTheSwitch(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	old := f.opened(outbox.Rows)
	pause := func() error {
		return pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
			return old.Pause(t.Context(), workqueue.Pgx(tx), "t")
		})
	}
	if err := pause(); err != nil {
		t.Fatal(err)
	}
	f.inTx(func(tx pgx.Tx) error { return old.Resume(t.Context(), workqueue.Pgx(tx), "t") })
	f.exec("SELECT "+f.table+"_take_over('main')", []any{}...)
	f.refusedWith("a pause during the move", pause(), "55000")
	f.move()
	f.refusedWith("a pause after it", pause(), "55000")
}
