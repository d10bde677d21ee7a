package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/apptx"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
)

// newMoving is an outbox with the tables of rows and of a log, whose messages are ordered by key, opened with
// MoveToLog.
func newMoving(t *testing.T) *fixture {
	t.Helper()
	return newLog(t, func(o *outbox.Options) { o.Storage, o.Ordering = outbox.MoveToLog, outbox.PerKey })
}

// opened is the outbox as others have opened it.
func (f *fixture) opened(s outbox.Storage) *outbox.Outbox {
	f.Helper()
	o := outbox.Options{Schema: f.Schema, Storage: s, Ordering: outbox.PerKey}
	if s == outbox.Rows {
		o.Retry = workqueue.Retry{Growth: workqueue.Constant, Base: time.Hour, Cap: time.Hour}
	}
	box, err := outbox.Open(o)
	if err != nil {
		f.Fatal(err)
	}
	return box
}

func (f *fixture) send(box *outbox.Outbox, msgs ...outbox.Message) []workqueue.Enqueued {
	f.Helper()
	var enqueued []workqueue.Enqueued
	f.inTx(func(tx pgx.Tx) (err error) {
		enqueued, err = box.EnqueueMany(f.Context(), workqueue.Pgx(tx), msgs...)
		return err
	})
	return enqueued
}

// rowsLeft counts rows of the table of rows.
func (f *fixture) rowsLeft(where string) int {
	f.Helper()
	return f.count("SELECT count(*) FROM " + f.Schema + ".outbox WHERE " + where)
}

// move moves the outbox to the subscription main.
func (f *fixture) move() outbox.MoveState {
	f.Helper()
	s, err := f.box.Move(f.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *fixture) moveState() (s outbox.MoveState) {
	f.Helper()
	f.inTx(func(tx pgx.Tx) (err error) {
		s, err = f.box.MoveState(f.Context(), workqueue.Pgx(tx))
		return err
	})
	return s
}

func inKey(key, payload string) outbox.Message {
	return outbox.Message{Topic: "t", Key: key, Payload: []byte(payload)}
}

// hold begins the transaction of a producer that has written a message, and is rolled back at the end of the test.
func (f *fixture) hold() pgx.Tx {
	f.Helper()
	held, err := f.Pool.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = held.Rollback(context.Background()) })
	if _, err := f.box.Enqueue(f.Context(), workqueue.Pgx(held), inKey("k", "1")); err != nil {
		f.Fatal(err)
	}
	return held
}

// drainRows delivers the rows that are due.
func (f *fixture) drainRows(box *outbox.Outbox, h outbox.Handler) {
	f.Helper()
	r, err := outbox.NewRelay(f.Pool, box, outbox.RelayOptions{})
	if err != nil {
		f.Fatal(err)
	}
	r.HandleAll(h)
	drain, err := r.Drain()
	if err != nil {
		f.Fatal(err)
	}
	if _, err := drain.Process(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// refusedWith fails the test unless an error of the server has the code.
func (f *fixture) refusedWith(what string, err error, code string) {
	f.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != code {
		f.Errorf("%s: %v, want SQLSTATE %s", what, err, code)
	}
}

// Rows that are ready, scheduled, retried or block their key go to the successor as they are, and are delivered before
// the messages of their keys that are in the log. Rows that have ended stay.
func TestAnOutboxMovesToALog(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	old := f.opened(outbox.Rows)
	later := inKey("later", "l1")
	later.ScheduledAt = time.Now().Add(24 * time.Hour)
	ids := workqueue.IDs(f.send(old, inKey("dead", "d1"), inKey("retried", "r1"), inKey("", "done"), later,
		inKey("dead", "d2"), inKey("retried", "r2"), inKey("later", "l2"), inKey("", "lone")))
	f.drainRows(old, func(_ context.Context, m *outbox.Delivery) error {
		switch string(m.Payload) {
		case "d1", "lone":
			return workqueue.Permanent(errors.New("no"))
		case "r1":
			return errors.New("not yet")
		}
		return nil
	})
	f.send(f.box, inKey("", "plain"), inKey("dead", "d3")) // still rows

	if s := f.moveState(); s.Stage != outbox.BeforeMove || s.Unfinished != 7 || s.Blocking != 1 || s.Hindrance != "" {
		t.Errorf("before: %+v", s)
	}
	s := f.move()
	if s.Stage != outbox.AfterMove || s.Moved != 8 || s.Unfinished != 0 || s.Blocking != 0 || s.Successor != "main" {
		t.Errorf("moved: %+v", s)
	}
	if n, ended := f.rowsLeft("true"), f.rowsLeft("completed_at IS NOT NULL"); n != 2 || ended != 2 {
		t.Errorf("%d rows are left, of which %d have ended, want 2", n, ended)
	}
	if again := f.move(); again.Moved != 0 || again.Stage != outbox.AfterMove {
		t.Errorf("moved again: %+v", again)
	}
	f.send(f.box, inKey("dead", "d4"), inKey("retried", "r3"), inKey("later", "l3"), inKey("free", "f1"))

	got := make(chan string, 100)
	f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
			got <- fmt.Sprint(string(m.Payload), " ", m.Attempt)
			return nil
		})
	})
	expect := func(what string, want ...string) {
		t.Helper()
		var all []string
		for range want {
			all = append(all, receive(t, got))
		}
		if what == "" {
			slices.Sort(all)
		}
		if !slices.Equal(all, want) {
			t.Errorf("%s: delivered %q, want %q", what, all, want)
		}
	}
	expect("", "f1 1", "plain 1")
	f.until("the dead letter is one again, and all others of the log are parked", func() bool {
		return f.parked("main", "status = 3") == 1 && f.parked("main", "status = 0") == 9
	})
	parked := f.box.Table().On(f.Pool)
	do := func(verb string, id uuid.UUID) {
		t.Helper()
		f.exec(fmt.Sprintf("SELECT * FROM %s_parked_%s", f.table, verb), []uuid.UUID{id})
	}
	if _, err := parked.Redrive(t.Context(), ids[:1], "test"); err != nil {
		t.Fatal(err)
	}
	expect("dead", "d1 1", "d2 1", "d3 1", "d4 1")
	do("run_now($1)", ids[1])
	expect("retried", "r1 2", "r2 1", "r3 1")
	do("reschedule($1, now())", ids[3])
	expect("later", "l1 1", "l2 1", "l3 1")
	f.until("all is delivered", func() bool { return f.drained("main") })
}

// A dedup key that a row has is refused after the switch, whether the row has ended, waits or has moved.
func TestDedupKeysHoldAcrossTheSwitch(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	unique := func(dedupKey string) outbox.Message { return outbox.Message{Topic: "t", DedupKey: dedupKey} }
	other := unique("ended")
	other.Topic = "other"
	later := unique("later")
	later.ScheduledAt = time.Now().Add(time.Hour)
	ended := f.send(f.box, unique("ended"), unique("many"))
	f.drainRows(f.opened(outbox.Rows), func(context.Context, *outbox.Delivery) error { return nil })
	live := f.send(f.box, later)[0].ID
	again := unique("ended") // repeated with its id, since the reply of its commit was lost
	again.ID = ended[0].ID
	f.exec("SELECT "+f.table+"_take_over('main')", []any{}...)
	for _, moved := range []bool{false, true} {
		if moved {
			f.move()
		}
		for _, box := range []*outbox.Outbox{f.box, f.opened(outbox.Log)} {
			fresh := unique(fmt.Sprint("new", moved))
			got := f.send(box, unique("ended"), fresh, unique("later"), unique("many"), other, again)
			if !got[0].Duplicate || got[0].ID != ended[0].ID || !got[2].Duplicate || got[2].ID != live ||
				!got[3].Duplicate || got[3].ID != ended[1].ID || !got[5].Duplicate {
				t.Errorf("moved %t: %+v", moved, got)
			}
		}
		f.inTx(func(tx pgx.Tx) error {
			for key, holder := range map[string]uuid.UUID{"ended": ended[0].ID, "later": live} {
				var id uuid.UUID
				var duplicate bool
				err := tx.QueryRow(t.Context(),
					"SELECT id, duplicate FROM "+f.table+"_append('t', '', dedup_key => $1)", key).Scan(&id, &duplicate)
				if err != nil || !duplicate || id != holder {
					t.Errorf("SQL, %s: %s, %t, %v", key, id, duplicate, err)
				}
			}
			return nil
		})
	}
	if n := f.count("SELECT count(*) FROM " + f.table); n != 3 {
		t.Errorf("%d messages are in the log, want the two new ones and that of the other topic", n)
	}
	// The key of a message that has not ended outlives the retention of the log.
	f.exec("CALL " + f.table + "_tick()")
	f.subscriber("main", workqueue.WorkerOptions{}, func(r *outbox.Relay) {
		r.HandleAll(func(context.Context, *outbox.Delivery) error { return nil })
	})
	f.until("main has passed all", func() bool {
		return f.count("SELECT count(*) FROM "+f.table+"_position WHERE (upto).n IS NOT NULL OR (seen).n < "+
			"(SELECT max(n) FROM "+f.table+"_tick)") == 0
	})
	f.exec("CALL " + f.table + "_trim('0')")
	if got := f.send(f.box, unique("later")); !got[0].Duplicate {
		t.Error("the key of a scheduled message is free")
	}
}

// The switch waits for transactions that have written rows, or have asked where messages go. Producers behind it wait
// for its lock timeout and no longer, and one that gives up has changed nothing.
func TestTheSwitchWaitsForWriters(t *testing.T) {
	t.Parallel()
	for _, w := range apptx.Libraries() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			f := newMoving(t)
			tx, end := w.Begin(f, f.DB)
			if _, err := f.box.Enqueue(t.Context(), tx, inKey("k", "1")); err != nil {
				t.Fatal(err)
			}
			options := outbox.MoveOptions{Subscription: "main", LockTimeout: 100 * time.Millisecond,
				Wait: 300 * time.Millisecond}
			_, err := f.box.Move(t.Context(), f.Pool, options)
			if !errors.Is(err, outbox.ErrSwitch) {
				t.Errorf("move beside an open transaction: %v", err)
			}
			if s := f.moveState(); s.Stage != outbox.BeforeMove {
				t.Errorf("state: %+v", s)
			}
			moved := make(chan error, 1)
			go func() {
				_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main",
					LockTimeout: options.LockTimeout, Wait: patience})
				moved <- err
			}()
			for range 5 {
				f.send(f.box, inKey("other", "1")) // passes the switch
			}
			if _, err := f.box.Enqueue(t.Context(), tx, inKey("k", "2")); err != nil {
				t.Fatal(err)
			}
			end(true)
			if err := receive(t, moved); err != nil {
				t.Fatal(err)
			}
			if n := f.parked("main", "true"); n < 2 {
				t.Errorf("%d rows were parked", n)
			}
		})
	}
}

// Who writes rows after the switch is refused, in whatever way. A transaction that began before it is told to repeat.
func TestRowsAreRefusedAfterTheSwitch(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	old := f.opened(outbox.Rows)
	snapshot := func() pgx.Tx {
		tx, err := f.Pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM "+f.table); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	before, dedup := snapshot(), snapshot()
	f.send(f.box, outbox.Message{Topic: "t", DedupKey: "unseen"})
	f.move()

	err := pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := old.Enqueue(t.Context(), workqueue.Pgx(tx), inKey("k", "1"))
		return err
	})
	f.refusedWith("a producer of rows", err, "55000")
	for _, sql := range []string{"SELECT SCHEMA.outbox_enqueue('t', '')", "COPY SCHEMA.outbox (topic, payload) FROM STDIN",
		"INSERT INTO SCHEMA.outbox (topic, payload) SELECT 't', '' WHERE false",
		"SELECT SCHEMA.outbox_enqueue_many('[{\"topic\": \"t\", \"payload\": \"\"}]')"} {
		_, err := f.Pool.Exec(t.Context(), strings.ReplaceAll(sql, "SCHEMA", f.Schema))
		f.refusedWith(sql, err, "55000")
	}
	_, err = f.box.Enqueue(t.Context(), workqueue.Pgx(before), inKey("k", "1"))
	f.refusedWith("a transaction from before the switch", err, "40001")
	_, err = f.opened(outbox.Log).Enqueue(t.Context(), workqueue.Pgx(dedup),
		outbox.Message{Topic: "t", DedupKey: "unseen"})
	f.refusedWith("one that cannot see a dedup key", err, "40001")
	again := snapshot()
	if _, err := f.box.Enqueue(t.Context(), workqueue.Pgx(again), inKey("k", "1")); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if n := f.rowsLeft("true"); n != 0 {
		t.Errorf("%d rows were written", n)
	}

	for _, tx := range []pgx.Tx{before, dedup, again} {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	// A copy without the triggers takes rows, until the move is called again.
	f.exec("DROP TRIGGER outbox_log_moved ON " + f.Schema + ".outbox")
	f.send(old, inKey("k", "1"))
	if s := f.move(); s.Moved != 1 || f.rowsLeft("true") != 0 {
		t.Errorf("moved again: %+v", s)
	}
	_, err = f.Pool.Exec(t.Context(), "SELECT "+f.Schema+".outbox_enqueue('t', '')")
	f.refusedWith("rows after that", err, "55000")
}

// A row in progress keeps its key from moving, and the successor from going on, until it is settled.
func TestRowsInProgressAreSettledFirst(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	f.send(f.box, inKey("k", "1"), inKey("k", "2"), inKey("other", "1"))
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	r, err := outbox.NewRelay(f.Pool, f.box, outbox.RelayOptions{
		WorkerOptions: workqueue.WorkerOptions{Concurrency: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r.HandleAll(func(_ context.Context, m *outbox.Delivery) error {
		if m.Key == "k" {
			held <- struct{}{}
			<-hold
			return errors.New("not yet")
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	receive(t, held)
	stop() // it claims nothing more

	states := make(chan outbox.MoveState, 1000)
	moved := make(chan error, 1)
	go func() {
		_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main",
			Progress: func(s outbox.MoveState) { states <- s }})
		moved <- err
	}()
	for {
		if s := receive(t, states); s.Stage == outbox.DuringMove && s.InProgress == 1 && s.Unfinished == 2 {
			break
		}
	}
	err = pgx.BeginFunc(t.Context(), f.Pool, func(tx pgx.Tx) error {
		_, err := f.box.ResumeSubscription(t.Context(), workqueue.Pgx(tx), "main")
		return err
	})
	f.refusedWith("a resume meanwhile", err, "55000")
	_, err = f.Pool.Exec(t.Context(), "SELECT "+f.table+"_unsubscribe('main', true)")
	f.refusedWith("a removal meanwhile", err, "55000")
	f.send(f.box, inKey("k", "3")) // to the log
	close(hold)
	if err := receive(t, moved); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
	if a, b := f.parked("main", "attempts = 1"), f.parked("main", "attempts = 0"); a != 1 || b != 2 {
		t.Errorf("parked: %d that have failed and %d that have not", a, b)
	}
}

// A move that was broken off goes on when it is called again, with the same successor only.
func TestAMoveGoesOn(t *testing.T) {
	t.Parallel()
	f := newMoving(t)
	for k := range 3 {
		msgs := make([]outbox.Message, 500)
		for i := range msgs {
			msgs[i] = inKey(fmt.Sprint("k", i, "-", k), "1")
		}
		f.send(f.box, msgs...)
	}
	_, err := f.Pool.Exec(t.Context(), "SELECT "+f.table+"_move_rows('main')")
	f.refusedWith("rows that move before the switch", err, "55000")
	steps := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := f.box.Move(ctx, f.Pool, outbox.MoveOptions{Subscription: "main",
			Progress: func(outbox.MoveState) { steps++; cancel() }})
		cancel()
		if err == nil && s.Stage == outbox.AfterMove {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v, %v", s, err)
		}
		_, err = f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "audit"})
		f.refusedWith("another successor", err, "55000")
		if f.rowsLeft("true") == 0 {
			f.move()
			break
		}
	}
	if n := f.parked("main", "status = 0"); n != 1500 || steps < 2 {
		t.Errorf("%d rows are parked after %d steps", n, steps)
	}
}

// What a log does not have, and what would be lost, is named before anything changes.
func TestWhatHindersAMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*fixture)
		want    string
	}{
		"a join": {func(f *fixture) {
			f.inTx(func(tx pgx.Tx) error {
				_, err := f.opened(outbox.Rows).StartJoin(f.Context(), workqueue.Pgx(tx),
					outbox.Join{Steps: []outbox.Message{{Topic: "t"}}})
				return err
			})
		}, "1 joins are pending"},
		"a paused topic": {func(f *fixture) {
			f.inTx(func(tx pgx.Tx) error { return f.opened(outbox.Rows).Pause(f.Context(), workqueue.Pgx(tx), "mail") })
		}, "resume 'mail'"},
		"a column": {func(f *fixture) { f.exec("ALTER TABLE " + f.Schema + ".outbox ADD tenant text") }, "drop tenant"},
		"messages of the log": {func(f *fixture) { f.send(f.opened(outbox.Log), inKey("k", "1")) },
			"the log has messages"},
		"a name that is taken": {func(f *fixture) { f.subscribe("main", 1) }, "main is there already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newMoving(t)
			c.arrange(f)
			if s := f.moveState(); s.Hindrance != "" && !strings.Contains(s.Hindrance, c.want) {
				t.Errorf("state: %+v", s)
			}
			_, err := f.box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			f.send(f.opened(outbox.Rows), inKey("k", "1")) // nothing has changed
		})
	}
	f := newMoving(t)
	for _, box := range []*outbox.Outbox{f.opened(outbox.Rows), f.opened(outbox.Log)} {
		if _, err := box.Move(t.Context(), f.Pool, outbox.MoveOptions{Subscription: "main"}); !errors.Is(err,
			workqueue.ErrInvalid) {
			t.Errorf("another storage: %v", err)
		}
	}
	if _, err := f.box.Enqueue(t.Context(), nil, outbox.Message{Topic: "t", MaxAttempts: 3}); !errors.Is(err,
		workqueue.ErrInvalid) {
		t.Errorf("what the log would refuse: %v", err)
	}
}
