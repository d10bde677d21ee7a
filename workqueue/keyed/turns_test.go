package keyed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// An application that cancels a waiting row and does not commit delays neither settles nor sweeps.
func TestSettlesWaitForNoRowThatAnApplicationHolds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule       keyed.Rule
		first      string // how the first row ends
		held, then []int  // the rows claimed while the second row is held, and afterwards
	}{
		"serial":  {keyed.Ordered{Key: "k"}, "ack", nil, []int{3}},
		"limited": {keyed.Limited{Key: "k", MaxRunning: 1}, "ack", []int{3}, nil},
		"parked":  {keyed.Ordered{Key: "k", OnFailure: keyed.Park}, "fail", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := test.rule
			ids := r.insert(row(1, g), row(2, g), row(3, g))
			token, _ := r.expect(1)
			app := r.begin()
			_, err := r.table.In(workqueue.Pgx(app)).Cancel(t.Context(), ids[1:2], "not wanted")
			r.ok(err)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if test.first == "fail" {
				_, err = r.queue.Fail(ctx, token, ids[:1], "no good")
			} else {
				_, err = r.queue.Ack(ctx, token, ids[:1])
			}
			r.ok(err)
			r.expect(test.held...)
			r.ok(app.Commit(t.Context()))
			r.expect(test.then...)
		})
	}
}

// An application is writing the key's first row. Rows that joins release meanwhile wait for it, but neither a sweep nor
// a deletion of one of them does.
func TestSweepsAndDeletesWaitForNoWriter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(held(0, serial("k")), held(1, serial("k")))
	app := r.begin()
	r.insertIn(app, row(2, serial("k")))
	r.exec("UPDATE work SET waiting = false")
	r.atOnce("SELECT work_key_sweep(100)")
	r.atOnce("SELECT work_key_fold(100)")
	r.atOnce("DELETE FROM work WHERE n = 0")
	r.ok(app.Commit(context.Background()))
	r.finish(2, 1)
}

// Two folders cannot see each other's uncommitted changes, so the second one leaves all notes to the first.
func TestFoldersTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := keyed.Limited{Key: "k", MaxRunning: 1}
	r.insert(row(1, one), row(2, one))
	first := r.begin()
	_, err := first.Exec(t.Context(), "SELECT work_key_fold(1)")
	r.ok(err)
	if busy := ask[bool](r, "SELECT folded IS NULL FROM work_key_fold(100)"); !busy {
		t.Error("the second folder worked beside the first")
	}
	r.ok(first.Commit(t.Context()))
	r.finish(1, 2)
}

// A sweep that finds another sweep, or any other lock on its cursor, does nothing and does not wait.
func TestSweepsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, holds := range []string{"SELECT FROM work_key_cursor FOR UPDATE",
		"UPDATE work_key_cursor SET ordered_key = 'x'", "SELECT work_key_sweep(100)"} {
		r.exec("UPDATE work_key_cursor SET swept_at = '-infinity'")
		other := r.begin()
		_, err := other.Exec(t.Context(), holds)
		r.ok(err)
		r.atOnce("SELECT work_key_sweep(100)")
		r.ok(other.Rollback(t.Context()))
	}
}

// If another session locks a row, other keys continue at once, and the row's key continues once the lock is released.
func TestFoldsWaitForNoRow(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string]string{
		"a waiting row":         "SELECT FROM work WHERE n = 2 FOR UPDATE",
		"the first row":         "SELECT FROM work WHERE n = 1 FOR UPDATE",
		"a limited row":         "SELECT FROM work WHERE n = 11 FOR UPDATE",
		"a row with a rate":     "SELECT FROM work WHERE n = 20 FOR UPDATE",
		"what is known":         "SELECT FROM work_key_state FOR UPDATE",
		"notes":                 "SELECT FROM work_key_note FOR UPDATE",
		"a row that is parked":  "SELECT FROM work WHERE n = 31 FOR UPDATE",
		"the cursor of sweeps":  "SELECT FROM work_key_cursor FOR UPDATE",
		"a backup of the table": "LOCK TABLE work, work_key_note, work_key_state, work_key_cursor IN ACCESS SHARE MODE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			limited, parked := keyed.Limited{Key: "l", MaxRunning: 1}, keyed.Ordered{Key: "p", OnFailure: keyed.Park}
			r.insert(row(21, one("r", 1)), row(30, parked))
			token, first := r.expect(21, 30)
			failed["fail"](r, token, first[1:])
			r.insert(row(1, serial("s")), row(2, serial("s")), row(10, limited), row(11, limited),
				row(20, one("r", keyed.MaxRate)), row(31, parked))
			holder := r.begin()
			_, err := holder.Exec(t.Context(), holds)
			r.ok(err)
			r.insert(row(100, serial("other")), row(101, keyed.Limited{Key: "another", MaxRunning: 1}))
			r.atOnce("SELECT work_key_fold(1000)")
			if n := ask[int](r, "SELECT count(*) FROM work WHERE n >= 100 AND NOT waiting"); n != 2 {
				t.Errorf("%d of the 2 rows of other keys are through\n%s", n, r.dump())
			}
			r.ok(holder.Rollback(t.Context()))
			r.eventually("everybody goes on", func() bool {
				token, _, ids := r.claim()
				if len(ids) > 0 {
					done["ack"](r, token, ids)
				}
				return ask[int](r, "SELECT count(*) FROM work WHERE status = 0") == 0
			})
		})
	}
}

// The transactions of a key's producers overlap all the time. Delivery still keeps up with them.
func TestAKeyThatIsAlwaysBeingWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const enough = 40
	r.work(workqueue.WorkerOptions{}, func(context.Context, *workqueue.Claim[body]) error { return nil })
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var producers sync.WaitGroup
	for range 4 {
		producers.Go(func() {
			for ctx.Err() == nil {
				tx, err := r.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				r.insertIn(tx, row(1, serial("hot")))
				pgtest.Pass(20 * time.Millisecond)
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r.eventually("rows are delivered while the producers go on", func() bool {
		return ask[int](r, "SELECT count(*) FROM work WHERE status = 2") >= enough
	})
	stop()
	producers.Wait()
}

// A limited key has a free place, and another session has cancelled a row of the key and not committed.
func TestAnOpenCancelStopsNoLimitedKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ten := keyed.Limited{Key: "k", MaxRunning: 10}
	ids := r.insert(row(1, ten), row(2, ten))
	r.fold()
	app := r.begin()
	_, err := r.table.In(workqueue.Pgx(app)).Cancel(t.Context(), ids[:1], "not wanted")
	r.ok(err)
	r.insert(row(3, ten), row(4, ten))
	r.expect(2, 3, 4)
}

// Each ordered key holds a lock in the server's shared lock table.
func TestATransactionWritesABoundedNumberOfOrderedKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const many = "INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT g, 'k' || g % $1::int, 0, 0 FROM " +
		"generate_series(1, 20000) AS g"
	_, err := r.pool.Exec(t.Context(), many, 20000)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "54000" || refused.Hint == "" {
		t.Errorf("20,000 keys: %v, want them refused with a hint", err)
	}
	r.exec(many, 500) // as many rows of few keys
	rules := make([]keyed.Rule, 20000)
	for i := range rules {
		rules[i] = serial(fmt.Sprint(i))
	}
	r.ok(keyed.Lock(t.Context(), workqueue.Pgx(r.begin()), r.table, rules...)) // takes none: the insert refuses them
}

// A row of the key was released after the snapshot of the transaction that redrives another one.
func TestRedriveUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")))
	token, ids := r.expect(1)
	failed["fail"](r, token, ids)
	tx, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	r.ok(err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM work")
	r.ok(err)
	r.insert(row(2, serial("k")))
	token, second := r.expect(2)
	_, err = r.table.In(workqueue.Pgx(tx)).Redrive(t.Context(), ids, "")
	r.ok(err)
	r.ok(tx.Commit(t.Context()))
	r.expect()
	done["ack"](r, token, second)
	r.expect(1)
}
