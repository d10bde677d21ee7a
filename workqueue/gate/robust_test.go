package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
)

// The server's memory for locks is small, and a sweep may look at thousands of keys that have no room.
func TestKeysWithoutRoomCostASweepNoLocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	blocked, full := &gate.Gate{Key: "blocked", OnFailure: gate.Block}, &gate.Gate{Key: "full", Limit: 1}
	r.insert(row(1, blocked), row(2, blocked), row(3, full), row(4, full))
	r.sweep()
	token, ids := r.expect(1, 3)
	_, err := r.queue.Fail(t.Context(), token, ids[:1], "no")
	r.ok(err)
	r.insert(row(5, serial("skips and blocks")))
	token, skipped := r.expect(5)
	failed["fail"](r, token, skipped)
	r.insert(row(6, &gate.Gate{Key: "skips and blocks", OnFailure: gate.Block}), row(7, serial("skips and blocks")))
	token, blocks := r.expect(6)
	failed["fail"](r, token, blocks)

	tx := r.begin()
	_, err = r.table.In(workqueue.Pgx(tx)).Sweep(t.Context(), 100)
	r.ok(err)
	var locks int
	r.ok(tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").Scan(&locks))
	if locks != 0 {
		t.Errorf("the sweep holds %d advisory locks", locks)
	}
}

// A transaction with an old snapshot does not see all that are through.
func TestLimitHoldsWhateverTheIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := &gate.Gate{Key: "k", Limit: 2}
			r.insert(row(1, g), row(2, g))
			r.sweep()
			token, ids := r.expect(1, 2)
			_, err := r.queue.Ack(t.Context(), token, ids[1:])
			r.ok(err)
			r.insert(row(3, g), row(4, g))
			tx, err := r.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			r.ok(err)
			defer tx.Rollback(context.Background())
			_, err = tx.Exec(t.Context(), "SELECT count(*) FROM work") // its snapshot: one is through, two wait
			r.ok(err)
			r.insert(row(5, g))
			r.exec("UPDATE work SET due_at = due_at - interval '1 hour' WHERE n = 5")
			r.sweep() // 5 is through

			_, err = r.table.In(workqueue.Pgx(tx)).Ack(t.Context(), token, ids[:1])
			r.ok(err)
			r.ok(tx.Commit(t.Context()))
			if n := ask[int](r, "SELECT count(*) FROM work WHERE completed_at IS NULL AND NOT waiting"); n > 2 {
				t.Errorf("%d rows are through, the limit is 2", n)
			}
			r.sweep()
			r.expect(5, 3)
		})
	}
}

// A sweep does a bounded part and the next one goes on with it.
func TestSweepsOfWideKeysAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT n, 'wide', 1000000, 0 FROM generate_series(1, 1500) AS n")
	if first, second := r.sweep(), r.sweep(); first != 1000 || second != 500 {
		t.Errorf("%d and %d rows are through, want 1000 and 500", first, second)
	}
	r.exec("DELETE FROM work")
	r.exec("INSERT INTO work (n, gate_key, gate_limit, gate_policy) SELECT n, 'long', 0, 2 FROM generate_series(1, 2501) AS n")
	token, ids := r.expect(1)
	_, err := r.queue.Fail(t.Context(), token, ids, "no")
	r.ok(err)
	if first, second := r.sweep(), r.sweep(); first != 1000 || second != 500 {
		t.Errorf("%d and %d rows were parked after the settle's own 1000, want 1000 and 500", first, second)
	}
}

// one is what a rate lets through: its bucket holds a single row's token.
func one(key string, rate float64) *gate.Gate {
	return &gate.Gate{Key: key, Limit: gate.Unlimited, Rate: rate, Burst: 1}
}

func TestBucketsAreForgottenWhenTheyAreFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	week := (7 * 24 * time.Hour).Seconds()
	r.insert(row(1, one("weekly", 1/week)), row(2, one("hourly", 1.0/3600)))
	if n := r.sweep(); n != 2 {
		t.Fatalf("%d rows are through, want 2", n)
	}
	r.exec("UPDATE work_gate_rate SET refilled_at = refilled_at - interval '3 days'")
	r.eventually("only the bucket that is not full is left", func() bool {
		r.sweep()
		return ask[string](r, "SELECT coalesce(string_agg(gate_key, ' '), '') FROM work_gate_rate") == "weekly"
	})
	r.insert(row(3, one("weekly", 1/week)))
	if n := r.sweep(); n != 0 {
		t.Error("a second row of the week is through after three days")
	}
}

func TestClockThatIsSetBackTakesNoTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, &gate.Gate{Key: "k", Limit: gate.Unlimited, Rate: 2, Burst: 2}))
	r.sweep()
	r.exec("UPDATE work_gate_rate SET refilled_at = refilled_at + interval '1 hour'")
	r.insert(row(2, &gate.Gate{Key: "k", Limit: gate.Unlimited, Rate: 2, Burst: 2}))
	if n := r.sweep(); n != 1 {
		t.Error("the second token is gone")
	}
}

// Test suites truncate every table that they find.
func TestSweepsGoOnAfterTruncate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("TRUNCATE work, work_gate_cursor, work_gate_rate")
	r.insert(row(1, &gate.Gate{Key: "k", Limit: 1}))
	r.eventually("a sweep lets the row through", func() bool { return r.sweep() == 1 })
}

// A row with half a gate would be found by no sweep.
func TestPlainSQLCannotWriteHalfAGate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")))
	for columns, values := range map[string]string{
		"gate_key": "'k'", "gate_limit": "0", "gate_key, gate_policy": "'k', 0", "gate_key, gate_limit": "'k', 0",
	} {
		if _, err := r.pool.Exec(t.Context(), fmt.Sprintf("INSERT INTO work (n, %s) VALUES (2, %s)", columns, values)); err == nil {
			t.Errorf("only %s: taken", columns)
		}
	}
	r.exec("INSERT INTO work (n, gate_key, gate_limit, gate_policy) VALUES (2, 'k', 0, 0)")
}

// A bucket that cannot be computed would fail every sweep, and with it the gates of all keys.
func TestPlainSQLCannotWriteARateThatOverflows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, rate := range []string{"1e308", "5e-324", "NaN", "Infinity"} {
		_, err := r.pool.Exec(t.Context(), "INSERT INTO work (n, gate_key, gate_limit, gate_policy, gate_rate, gate_burst) VALUES (1, 'k', 1, 0, $1::text::float8, 1)", rate)
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE 23514") {
			t.Errorf("rate %s: %v, want it refused", rate, err)
		}
	}
	r.insert(row(1, one("slow", gate.MinRate)), row(2, one("fast", gate.MaxRate)))
	r.sweep()
	r.expect(1, 2)
}

// What stands in nobody's way keeps nobody: the next row of the key need not wait for a sweep.
func TestRowsThatEndedMakeNobodyWait(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig){
		"a dead letter that is skipped": func(r *rig) {
			r.insert(row(1, serial("k")))
			token, ids := r.expect(1)
			failed["fail"](r, token, ids)
		},
		"a cancelled row of a key that blocks": func(r *rig) {
			ids := r.insert(row(1, &gate.Gate{Key: "k", OnFailure: gate.Block}))
			_, err := r.queue.Cancel(r.Context(), ids, "not wanted")
			r.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			end(r)
			r.insert(row(2, serial("k")))
			r.expect(2)
		})
	}
}

// A purge takes thousands of dead letters in one transaction, and an ack as many rows: those behind which nobody
// waits must not fill the server's memory for locks.
func TestKeysInWhichNobodyWaitsCostNoLocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*rig)
		settle func(*rig, *workqueue.Queue)
	}{
		"a row is alive behind the dead letter that is purged": {
			func(r *rig) {
				r.insert(row(1, serial("k")))
				token, ids := r.expect(1)
				failed["fail"](r, token, ids)
				r.exec("UPDATE work SET failed_at = failed_at - interval '1 day'")
				r.insert(row(2, serial("k")))
			},
			func(r *rig, q *workqueue.Queue) {
				n, err := q.PurgeFailed(r.Context(), time.Hour, 10)
				r.ok(err)
				if n != 1 {
					r.Errorf("%d rows are purged, want 1", n)
				}
			},
		},
		"who waited is cancelled": {
			func(r *rig) {
				ids := r.insert(row(1, serial("k")), row(2, serial("k")))
				_, err := r.queue.Cancel(r.Context(), ids[1:], "not wanted")
				r.ok(err)
			},
			func(r *rig, q *workqueue.Queue) {
				token, ids := r.expect(1)
				_, err := q.Ack(r.Context(), token, ids)
				r.ok(err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.before(r)
			tx := r.begin()
			c.settle(r, r.table.In(workqueue.Pgx(tx)))
			var locks int
			r.ok(tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").Scan(&locks))
			if locks != 0 {
				t.Errorf("the transaction holds %d advisory locks", locks)
			}
		})
	}
}

// What stands in nobody's way has not been taken out of it: the caller would report a repair that was none.
func TestSkippingTellsWhatWasInTheWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("skips")), row(2, &gate.Gate{Key: "blocks", OnFailure: gate.Block}))
	token, ids := r.expect(1, 2)
	failed["fail"](r, token, ids)
	ids = append(ids, r.insert(row(3, &gate.Gate{Key: "runs", OnFailure: gate.Block}))...)
	for _, want := range []int{1, 0} {
		r.ok(pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			skipped, err := gate.SkipFailed(t.Context(), workqueue.Pgx(tx), r.table, ids...)
			if len(skipped) != want {
				t.Errorf("%d rows were skipped, want %d", len(skipped), want)
			}
			return err
		}))
	}
}

// A sweep repairs keys whatever has ended in them: only a dead letter that blocks the very row stands in its way.
func TestSweepsPassWhatIsInNobodysWay(t *testing.T) {
	t.Parallel()
	blocks := func(n int) workqueue.NewRow { return row(n, &gate.Gate{Key: "k", OnFailure: gate.Block}) }
	for name, before := range map[string]func(*rig){
		"a row is done": func(r *rig) {
			r.insert(blocks(1), blocks(2))
			token, ids := r.expect(1)
			done["ack"](r, token, ids)
		},
		"a row is cancelled": func(r *rig) {
			ids := r.insert(blocks(1), blocks(2))
			_, err := r.queue.Cancel(r.Context(), ids[:1], "not wanted")
			r.ok(err)
		},
		"a dead letter stands behind it": func(r *rig) {
			r.insert(row(2, serial("k")))
			token, first := r.expect(2)
			failed["fail"](r, token, first)
			r.insert(blocks(3))
			token, second := r.expect(3)
			failed["fail"](r, token, second)
			r.redrive(first...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			before(r)
			r.exec("UPDATE work SET waiting = true WHERE n = 2") // as a settle leaves it that did not see it
			r.sweep()
			r.expect(2)
		})
	}
}

// Idle workers hear of a row that a settle lets through.
func TestARowThatIsLetThroughIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := &gate.Gate{Key: "l", Limit: 1}
	r.insert(row(1, one), row(2, one), row(3, serial("s")), row(4, serial("s")))
	r.sweep()
	token, ids := r.expect(3, 1)
	listener, err := r.pool.Acquire(t.Context())
	r.ok(err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), `LISTEN "`+r.table.Name()+`"`)
	r.ok(err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, id := range ids {
		_, err := r.queue.Ack(ctx, token, []uuid.UUID{id})
		r.ok(err)
		_, err = listener.Conn().WaitForNotification(ctx)
		r.ok(err)
	}
	r.expect(4, 2)
}

func TestPlainSQLCannotLetTwoRowsOfASerialKeyThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")), row(2, serial("k")))
	var refused *pgconn.PgError
	if _, err := r.pool.Exec(t.Context(), "UPDATE work SET waiting = false"); !errors.As(err, &refused) || refused.Code != "23505" {
		t.Errorf("error %v", err)
	}
}
