package keyed_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A transaction with an old snapshot does not see all released rows.
func TestLimitHoldsWhateverTheIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := keyed.Limited{Key: "k", MaxRunning: 2}
			r.insert(row(1, g), row(2, g))
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
			r.fold() // releases 5

			_, err = r.table.In(workqueue.Pgx(tx)).Ack(t.Context(), token, ids[:1])
			r.ok(err)
			r.ok(tx.Commit(t.Context()))
			if n := ask[int](r, "SELECT count(*) FROM work WHERE completed_at IS NULL AND NOT waiting"); n > 2 {
				t.Errorf("%d rows are through, the limit is 2", n)
			}
			r.expect(5, 3)
		})
	}
}

// A fold releases or parks a bounded number of rows, and the next one continues.
func TestFoldsOfWideKeysAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT n, 'wide', 1000000, 0 FROM " +
		"generate_series(1, 1500) AS n")
	r.exec("DELETE FROM work_key_note WHERE ctid <> '(0,1)'")
	for _, want := range []int{1000, 500, 0} {
		if n := ask[int](r, "SELECT released FROM work_key_fold(1000)"); n != want {
			t.Errorf("%d rows are through, want %d", n, want)
		}
	}
	r.exec("DELETE FROM work")
	r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT n, 'long', 0, 2 FROM generate_series(1, " +
		"2501) AS n")
	token, ids := r.expect(1)
	_, err := r.queue.Fail(t.Context(), token, ids, "no")
	r.ok(err)
	for _, want := range []int{1001, 2001, 2501, 2501} {
		r.exec("SELECT work_key_fold(10000)")
		if n := ask[int](r, "SELECT count(*) FROM work WHERE status = 3"); n != want {
			t.Errorf("%d rows are dead letters, want %d", n, want)
		}
	}
}

// one is a rate with a burst of one row.
func one(key string, rate float64) keyed.Rule {
	return keyed.Limited{Key: key, Rate: rate, Burst: 1}
}

func TestRatesAreForgottenWhenTheyAreNotInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	week := (7 * 24 * time.Hour).Seconds()
	r.insert(row(1, one("weekly", 1/week)), row(2, one("hourly", 1.0/3600)))
	if n := r.fold(); n != 2 {
		t.Fatalf("%d rows are through, want 2", n)
	}
	r.exec("UPDATE work_key_state SET next_at = next_at - interval '3 days', at = at - interval '3 days'")
	r.sweep()
	if left := ask[string](r, "SELECT coalesce(string_agg(concurrency_key, ' '), '') FROM work_key_state"); left != "weekly" {
		t.Errorf("the rates %q are kept, want that which is in use", left)
	}
	r.insert(row(3, one("weekly", 1/week)))
	if n := r.fold(); n != 0 {
		t.Error("a second row of the week is through after three days")
	}
}

func TestClockThatIsSetBackTakesNoTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	two := keyed.Limited{Key: "k", Rate: 1, Burst: 2}
	r.insert(row(1, two))
	r.fold()
	// as after a clock was set back
	r.exec("UPDATE work_key_state SET next_at = clock_timestamp() + interval '900 milliseconds'")
	r.insert(row(2, two))
	r.expect(1, 2)
}

// Test suites truncate every table that they find.
func TestSweepsGoOnAfterTruncate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, keyed.Limited{Key: "k", MaxRunning: 1}))
	r.exec("TRUNCATE work_key_cursor, work_key_state, work_key_note")
	r.sweep() // inserts the cursor again
	r.sweep()
	r.expect(1)
}

// Operators add columns to tables, for instance to say what writes to them. The functions name the columns that they
// use.
func TestKeysGoOnWhenTheirTablesHaveMoreColumns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec("ALTER TABLE work_key_note ADD COLUMN x int; ALTER TABLE work_key_state ADD COLUMN x int; " +
		"ALTER TABLE work_key_cursor ADD COLUMN x int")
	l := keyed.Limited{Key: "l", MaxRunning: 1}
	r.insert(row(1, serial("k")), row(2, serial("k")), row(3, l), row(4, l))
	token, ids := r.expect(1, 3)
	done["ack"](r, token, ids)
	r.expect(2, 4)
	r.sweep()
}

// A sweep would not find a row with an incomplete rule.
func TestPlainSQLCannotWriteHalfAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")))
	for columns, values := range map[string]string{
		"concurrency_key": "'k'", "key_limit": "0", "concurrency_key, key_policy": "'k', 0",
		"concurrency_key, key_limit": "'k', 0",
	} {
		if _, err := r.pool.Exec(t.Context(), fmt.Sprintf("INSERT INTO work (n, %s) VALUES (2, %s)", columns,
			values)); err == nil {
			t.Errorf("only %s: taken", columns)
		}
	}
	r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) VALUES (2, 'k', 0, 0)")
}

// A rate whose arithmetic overflows would fail every fold, and so stop all keys.
func TestPlainSQLCannotWriteARateThatOverflows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, rate := range []string{"1e308", "5e-324", "NaN", "Infinity"} {
		_, err := r.pool.Exec(t.Context(), "INSERT INTO work (n, concurrency_key, key_limit, key_policy, key_rate, "+
			"key_burst) VALUES (1, 'k', 1, 0, $1::text::float8, 1)", rate)
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE 23514") {
			t.Errorf("rate %s: %v, want it refused", rate, err)
		}
	}
	r.insert(row(1, one("slow", keyed.MinRate)), row(2, one("fast", keyed.MaxRate)))
	r.expect(1, 2)
	if _, err := r.pool.Exec(t.Context(), "UPDATE work SET key_rate = 'NaN'"); err == nil ||
		!strings.Contains(err.Error(), "SQLSTATE 23514") {
		t.Errorf("a change of a rate: %v, want it refused", err)
	}
	// A thousand rows at once are worth more years than an interval or a time has.
	for range 3 {
		r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy, key_rate, key_burst) SELECT 0, 'patient', "+
			"$1, 0, 1e-9, $1 FROM generate_series(1, 1000)", math.MaxInt32)
		r.fold()
	}
	if next := ask[int](r, "SELECT extract(year FROM max(next_at)) FROM work_key_state"); next != 9999 {
		t.Errorf("the next row of a rate may start in the year %d", next)
	}
	r.exec("DELETE FROM work WHERE n = 0")
}

// An ended row that does not block its key leaves nothing to wait for: the next row does not have to wait for a sweep.
func TestRowsThatEndedMakeNobodyWait(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig){
		"a dead letter that is skipped": func(r *rig) {
			r.insert(row(1, serial("k")))
			token, ids := r.expect(1)
			failed["fail"](r, token, ids)
		},
		"a cancelled row of a key that blocks": func(r *rig) {
			ids := r.insert(row(1, keyed.Ordered{Key: "k", OnFailure: keyed.Block}))
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

// Unblock returns only the rows that blocked their keys, or the caller would report repairs that were none.
func TestSkippingTellsWhatWasInTheWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("skips")), row(2, keyed.Ordered{Key: "blocks", OnFailure: keyed.Block}))
	token, ids := r.expect(1, 2)
	failed["fail"](r, token, ids)
	ids = append(ids, r.insert(row(3, keyed.Ordered{Key: "runs", OnFailure: keyed.Block}))...)
	for _, want := range []int{1, 0} {
		r.ok(pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			skipped, err := keyed.Unblock(t.Context(), workqueue.Pgx(tx), r.table, ids...)
			if len(skipped) != want {
				t.Errorf("%d rows were skipped, want %d", len(skipped), want)
			}
			return err
		}))
	}
	got := ask[[]string](r, "SELECT array_agg(concat_ws(': ', result, why) ORDER BY place) FROM work_unblock($1)",
		append(ids, uuid.New()))
	want := []string{"failed: the rows of its key do not wait for it", "failed: the rows of its key do not wait for it",
		"waiting: it is waiting", "gone: there is no such row"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// A sweep repairs a key whatever rows have ended in it: only a dead letter before the waiting row may block that row.
func TestSweepsPassWhatIsInNobodysWay(t *testing.T) {
	t.Parallel()
	blocks := func(n int) workqueue.NewRow { return row(n, keyed.Ordered{Key: "k", OnFailure: keyed.Block}) }
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
			r.fold()
			r.exec("UPDATE work SET waiting = true WHERE n = 2") // past every trigger
			r.sweep()
			r.expect(2)
		})
	}
}

// Idle workers are notified of a note, and of a row that a fold releases.
func TestARowThatIsLetThroughIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := keyed.Limited{Key: "l", MaxRunning: 1}
	r.insert(row(1, one), row(2, one), row(3, serial("s")), row(4, serial("s")))
	token, ids := r.expect(1, 3)
	next := pgtest.Listen(t, r.pool, r.table.Name())
	for _, id := range ids {
		_, err := r.queue.Ack(t.Context(), token, []uuid.UUID{id})
		r.ok(err)
		if n := next(); !strings.HasPrefix(n.Payload, "note:") {
			t.Errorf("the settle announces %q, want a note", n.Payload)
		}
		r.fold()
		if n := next(); strings.HasPrefix(n.Payload, "note:") {
			t.Errorf("the fold announces %q, want a due time", n.Payload)
		}
	}
	r.expect(2, 4)
}

// The writer of a note announces it, unless its transaction has declared that it folds itself.
func TestWhoFoldsAnnouncesNoNotes(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"enter":  "INSERT INTO work (n, concurrency_key, key_limit, key_policy) VALUES (9, 'k', 0, 0)",
		"come":   "UPDATE work SET waiting = false WHERE n = 1",
		"back":   "UPDATE work SET status = 0, locked_until = NULL, due_at = now() WHERE n = 2",
		"settle": "UPDATE work SET status = 2, completed_at = now(), locked_until = NULL WHERE n = 2",
	} {
		for _, folds := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " folds ", folds), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.insert(held(1, serial("k")), row(2, keyed.Limited{Key: "l", MaxRunning: 1}))
				r.expect(2)
				next := pgtest.Listen(t, r.pool, r.table.Name())
				tx := r.begin()
				if folds {
					_, err := tx.Exec(t.Context(), "SELECT set_config('txwork.folds', $1, true)", r.table.Name())
					r.ok(err)
				}
				_, err := tx.Exec(t.Context(), sql)
				r.ok(err)
				_, err = tx.Exec(t.Context(), "SELECT pg_notify($1, 'end')", r.table.Name())
				r.ok(err)
				r.ok(tx.Commit(t.Context()))
				announced := false
				for n := next(); n.Payload != "end"; n = next() {
					announced = announced || strings.HasPrefix(n.Payload, "note:")
				}
				if announced == folds {
					t.Errorf("a note is announced: %v", announced)
				}
			})
		}
	}
}

// Rows that plain SQL releases run, although the triggers did not. The key continues after them, in order.
func TestAKeyGoesOnBehindRowsThatPlainSQLLetThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	r.insert(row(1, serial("k")), row(2, serial("k")), row(3, serial("k")), row(4, serial("k")))
	token, ids := r.expect(1)
	r.exec("UPDATE work SET waiting = false WHERE n = 2")
	other, more := r.expect(2)
	done["ack"](r, token, ids)
	done["ack"](r, other, more)
	r.finish(3, 4)
}

// Test suites truncate the table of rows.
func TestKeysGoOnAfterTruncateOfTheRows(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]keyed.Rule{"ordered": keyed.Ordered{Key: "k"}, "limited": keyed.Limited{Key: "k",
		MaxRunning: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.mostPlacesAreMarked()
			r.insert(row(1, g))
			r.expect(1)
			r.exec("TRUNCATE work")
			r.insert(row(2, g))
			r.expect(2)
		})
	}
}

// The same if the rows end and the notes are truncated.
func TestKeysGoOnAfterTruncateOfTheNotes(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]keyed.Rule{"ordered": keyed.Ordered{Key: "k"}, "limited": keyed.Limited{Key: "k",
		MaxRunning: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.mostPlacesAreMarked()
			r.insert(row(1, g))
			token, ids := r.expect(1)
			done["ack"](r, token, ids)
			r.exec("TRUNCATE work_key_note")
			r.insert(row(2, g))
			r.expect(2)
		})
	}
}

// How far a rate is used up cannot be derived from rows, so it survives a TRUNCATE.
func TestRatesAreKeptOverTruncate(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"work", "work_key_note"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := keyed.Limited{Key: "k", Rate: 0.001, Burst: 1}
			r.insert(row(1, g))
			token, ids := r.expect(1)
			done["ack"](r, token, ids)
			r.fold()
			r.exec("TRUNCATE " + table)
			r.insert(row(2, g))
			r.fold()
			if n := r.through(); n != 0 {
				t.Errorf("%d rows are through, the rate lets the next through in a quarter of an hour\n%s", n, r.dump())
			}
		})
	}
}

// A data-only restore includes the stored state. Rows that were released but not claimed wait again.
func TestRestoredKeysGoOnWithWhatWasKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	r.insert(row(1, keyed.Limited{Key: "l", MaxRunning: 1}), row(2, keyed.Limited{Key: "l", MaxRunning: 1}))
	r.fold()
	r.exec("CREATE TABLE dump AS TABLE work; CREATE TABLE known AS TABLE work_key_state")
	r.exec("TRUNCATE work, work_key_note, work_key_state; INSERT INTO work SELECT * FROM dump ORDER BY n DESC; " +
		"INSERT INTO work_key_state SELECT * FROM known")
	r.fold()
	if n := r.through(); n != 1 { // either row will do: the release gave the first one a new due time
		t.Errorf("%d rows are through, want 1\n%s", n, r.dump())
	}
}
