package keyed_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// dueNotes counts the notes that are due within a minute.
func (r *rig) dueNotes() int {
	r.Helper()
	return ask[int](r, "SELECT count(*) FROM work_key_note WHERE at < now() + interval '1 minute'")
}

func (r *rig) cancel(ids ...uuid.UUID) {
	r.Helper()
	_, err := r.queue.Cancel(context.Background(), ids, "not wanted")
	r.ok(err)
}

// A key in which nothing is left to do leaves no note, or folders would look at it for ever.
func TestNotesAreDoneWith(t *testing.T) {
	t.Parallel()
	fast := keyed.Limited{Key: "k", Rate: 1000, Burst: 1}
	limited := func(n int) keyed.Rule { return keyed.Limited{Key: "k", MaxRunning: n} }
	parks := keyed.Ordered{Key: "k", OnFailure: keyed.Park}
	for name, prepare := range map[string]func(*rig){
		"an ordered row that is let through": func(r *rig) { r.insert(row(1, serial("k"))) },
		"a key that is blocked": func(r *rig) {
			blocks := keyed.Ordered{Key: "k", OnFailure: keyed.Block}
			ids := r.insert(row(1, blocks), row(2, blocks))
			token, _ := r.expect(1)
			failed["fail"](r, token, ids[:1])
		},
		"a cancelled row behind one that parked": func(r *rig) {
			ids := r.insert(row(1, parks), row(2, parks), row(3, parks))
			token, _ := r.expect(1)
			r.cancel(ids[1])
			failed["fail"](r, token, ids[:1])
		},
		"a limited row that is let through": func(r *rig) { r.insert(row(1, limited(2))) },
		"a key with room for more": func(r *rig) {
			r.insert(row(1, limited(3)), row(2, limited(3)))
			token, ids := r.expect(1, 2)
			done["ack"](r, token, ids[:1])
		},
		"a full key": func(r *rig) {
			r.insert(row(1, limited(1)))
			r.fold()
			r.insert(row(2, limited(1)))
		},
		"a limited row, cancelled": func(r *rig) { r.cancel(r.insert(row(1, limited(1)))...) },
		"a limited row due later": func(r *rig) {
			r.insert(late(1, limited(1)))
			r.cancel(r.insert(row(2, limited(1)))...)
		},
		"a row of a rate":            func(r *rig) { r.insert(row(1, fast)) },
		"a row of a rate, cancelled": func(r *rig) { r.insert(row(1, fast)); r.cancel(r.insert(row(2, fast))...) },
		"a row of a rate, due later": func(r *rig) { r.insert(late(1, fast), row(2, fast)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prepare(r)
			if r.dueNotes() == 0 {
				t.Fatal("there is no note to begin with")
			}
			r.exec("SELECT work_key_fold(1000)")
			if n := r.dueNotes(); n != 0 {
				t.Errorf("the fold leaves %d notes\n%s", n, r.dump())
			}
		})
	}
}

// A fold takes all notes of few keys together, however many there are. Otherwise the notes of settles would wait behind
// all of them. It takes the notes of many keys in pieces.
func TestAFoldTakesMoreNotesOfFewerKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		notes, keys         int
		limited             bool
		most, folded, after int
	}{
		"ordered keys":  {notes: 95, keys: 3, most: 10, folded: 95, after: 0},
		"limited keys":  {notes: 95, keys: 3, limited: true, most: 10, folded: 95, after: 0},
		"more than ten": {notes: 120, keys: 3, most: 10, folded: 100, after: 20},
		"many keys":     {notes: 95, keys: 95, most: 10, folded: 10, after: 85},
		"fewer":         {notes: 7, keys: 7, most: 10, folded: 7, after: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.exec("INSERT INTO work_key_note (at, concurrency_key, limited) SELECT now() - n * interval '1 ms', 'k' || n "+
				"% $2, $3 FROM generate_series(1, $1::int) AS n",
				test.notes, test.keys, test.limited)
			if n := ask[int](r, "SELECT folded FROM work_key_fold($1)", test.most); n != test.folded {
				t.Errorf("one fold takes %d notes, want %d", n, test.folded)
			}
			if n := r.dueNotes(); n != test.after {
				t.Errorf("%d notes are left, want %d", n, test.after)
			}
		})
	}
}

// A fold writes a new note for what it could not do, so no sweep is needed later.
func TestFoldsComeBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule  keyed.Rule
		holds string
	}{
		"ordered": {keyed.Ordered{Key: "k"}, "SELECT FROM work WHERE n = 2 FOR UPDATE"},
		"limited": {keyed.Limited{Key: "k", MaxRunning: 1}, "SELECT FROM work WHERE n = 2 FOR UPDATE"},
		"rate":    {keyed.Limited{Key: "k", Rate: 1000, Burst: 1}, "SELECT FROM work WHERE n = 2 FOR UPDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			g := test.rule
			r.insert(row(1, g))
			token, ids := r.expect(1)
			done["ack"](r, token, ids)
			r.insert(row(2, g))
			holder := r.begin()
			_, err := holder.Exec(t.Context(), test.holds)
			r.ok(err)
			r.exec("SELECT work_key_fold(1000)")
			r.ok(holder.Rollback(t.Context()))
			r.eventually("the row is through", func() bool { return r.fold() == 1 })
		})
	}
}

// A limited row that is due later has a note for its due time, whatever set that time.
func TestRowsDueLaterAreNotedForTheirTime(t *testing.T) {
	t.Parallel()
	const soon = 200 * time.Millisecond
	one := keyed.Limited{Key: "k", MaxRunning: 1}
	for name, prepare := range map[string]func(*rig){
		"inserted": func(r *rig) {
			l := row(1, one)
			l.DueAt = time.Now().Add(soon)
			r.insert(l)
		},
		"released": func(r *rig) {
			l := held(1, one)
			l.DueAt = time.Now().Add(soon)
			r.insert(l)
			r.exec("UPDATE work SET waiting = false")
		},
		"put back": func(r *rig) {
			r.insert(row(1, one))
			token, ids := r.expect(1)
			_, err := r.queue.Abandon(r.Context(), token, ids, soon, "again")
			r.ok(err)
		},
		"moved": func(r *rig) {
			r.insert(late(1, one))
			r.exec("UPDATE work SET due_at = now() + $1 * interval '1 microsecond'", soon.Microseconds())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			prepare(r)
			r.fold() // perhaps too early
			r.eventually("the row is through", func() bool { r.fold(); return r.through() == 1 })
		})
	}
}

// A fold that skips locked notes does not ask for another fold at once.
func TestLockedNotesKeepNoFolderBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")))
	_, err := r.begin().Exec(t.Context(), "SELECT FROM work_key_note FOR UPDATE")
	r.ok(err)
	if again := ask[*float64](r, "SELECT again FROM work_key_fold(1000)"); again != nil {
		t.Errorf("the fold asks to be repeated in %v s", *again)
	}
}

// A transaction with an old snapshot does not see what the previous fold released.
func TestFoldsNeedANewSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		r.ok(pgx.BeginTxFunc(t.Context(), r.pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			var left bool
			err := tx.QueryRow(t.Context(), "SELECT folded IS NULL FROM work_key_fold(1000)").Scan(&left)
			if !left {
				t.Errorf("a transaction folds under %s", level)
			}
			return err
		}))
	}
	r.expect(1)
}

// The dead letter may have been redriven, cancelled or unblocked since the fold read it.
func TestNothingIsParkedBehindWhatIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	parks := keyed.Ordered{Key: "k", OnFailure: keyed.Park}
	for name, change := range map[string]string{
		"redriven":  "UPDATE work SET status = 0, completed_at = NULL, failed_at = NULL, waiting = true WHERE n = 1",
		"cancelled": "UPDATE work SET cancelled_at = now() WHERE n = 1",
		"skipped":   "UPDATE work SET key_policy = 0 WHERE n = 1",
		"blocking":  "UPDATE work SET key_policy = 1 WHERE n = 1",
		"behind it": "UPDATE work SET key_seq = 1000 WHERE n = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ids := r.insert(row(1, parks), row(2, parks))
			token, _ := r.expect(1)
			failed["fail"](r, token, ids[:1])
			r.exec(change)
			r.exec("SELECT work_key_park('k', $1)", ids[0])
			if status := ask[int](r, "SELECT status FROM work WHERE n = 2"); status != 0 {
				t.Errorf("the row behind it has status %d", status)
			}
		})
	}
}

// A row that was cancelled while it waited is not parked as well.
func TestCancelledRowsAreNotParked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	parks := keyed.Ordered{Key: "k", OnFailure: keyed.Park}
	ids := r.insert(row(1, parks), row(2, parks), row(3, parks))
	token, _ := r.expect(1)
	r.cancel(ids[1])
	failed["fail"](r, token, ids[:1])
	r.fold()
	if n := ask[int](r, "SELECT count(*) FROM work WHERE last_error LIKE 'parked%'"); n != 1 {
		t.Errorf("%d rows are parked, want 1\n%s", n, r.dump())
	}
}

// If a key has a limit and a rate, both hold.
func TestARateKeepsItsLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	both := keyed.Limited{Key: "k", MaxRunning: 1, Rate: keyed.MaxRate, Burst: 10}
	r.insert(row(1, both), row(2, both))
	token, ids := r.expect(1)
	done["ack"](r, token, ids)
	r.expect(2)
}

// The first waiting row that is due determines the rate of its key, and only rows with a rate use it up.
func TestOnlyRowsThatAreNextUseARate(t *testing.T) {
	t.Parallel()
	rate := func(n, burst int) workqueue.NewRow {
		return row(n, keyed.Limited{Key: "k", Rate: 0.001, Burst: burst})
	}
	for name, test := range map[string]struct {
		prepare func(*rig)
		last    workqueue.NewRow
		want    []int
	}{
		"one that is through says nothing": {func(r *rig) { r.insert(rate(1, 100)); r.expect(1) }, rate(3, 1), nil},
		"one that is cancelled says nothing": {func(r *rig) {
			r.insert(rate(1, 1))
			r.expect(1)
			r.cancel(r.insert(rate(2, 100))...)
		}, rate(3, 1), nil},
		"one that is cancelled uses nothing": {func(r *rig) { r.cancel(r.insert(rate(1, 1))...) }, rate(3, 1),
			[]int{3}},
		"one that is due later uses nothing": {func(r *rig) {
			later := rate(1, 2)
			later.DueAt = time.Now().Add(time.Hour)
			r.insert(later, rate(2, 2))
			r.expect(2)
		}, rate(3, 2), []int{3}},
		"nor does a key in which nothing is due": {func(r *rig) {
			later := rate(1, 1)
			later.DueAt = time.Now().Add(time.Hour)
			r.insert(later)
			r.exec("INSERT INTO work_key_note VALUES (now(), 'k', true)")
			r.fold()
		}, rate(3, 1), []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			test.prepare(r)
			r.insert(test.last)
			r.expect(test.want...)
		})
	}
}

// The limit of ordered keys in a transaction does not count the locks of other sessions.
func TestTheLocksOfOthersRefuseNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.begin().Exec(t.Context(),
		`SELECT pg_advisory_xact_lock(-g) FROM generate_series(1, 1 + current_setting('max_locks_per_transaction')::integer
		* (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer) / 4) AS g`)
	r.ok(err)
	r.exec("SELECT setval('work_key_seq', 511)") // one row in 512 is counted at
	r.insert(row(1, serial("k")))
	r.expect(1)
}

// A sweep runs at most every five seconds, ignores rates, and treats ordered and limited keys separately.
func TestSweepsAreModest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, serial("k")), row(2, keyed.Limited{Key: "k", MaxRunning: 1}), row(3, one("r", 1000)))
	r.fold()
	r.exec("UPDATE work_key_state SET next_at = next_at - interval '1 hour'")
	_, err := r.begin().Exec(t.Context(), "SELECT FROM work_key_state FOR UPDATE")
	r.ok(err)
	r.exec("SET LOCAL session_replication_role = replica; UPDATE work SET waiting = true WHERE n = 2")
	r.exec("UPDATE work_key_cursor SET swept_at = '-infinity'")
	r.atOnce("SELECT work_key_sweep(100)")
	first := r.dueNotes()
	r.atOnce("SELECT work_key_sweep(100)")
	if n := r.dueNotes(); fmt.Sprint(first, n) != "1 1" {
		t.Errorf("the sweep notes %d keys, want the one that waits; the next one, at once, %d", first, n-first)
	}
	r.expect(1, 3, 2)
}
