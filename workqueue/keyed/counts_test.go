package keyed_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// A count sees that a row has ended. The note of that end comes later, and must not be subtracted again.
func TestACountAndALateNoteCountOnce(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"unknown":   "DELETE FROM work_key_state",
		"swept":     "INSERT INTO work_key_note (at, concurrency_key, limited) VALUES (clock_timestamp(), 'k', true)",
		"truncated": "TRUNCATE work_key_state",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.mostPlacesAreMarked()
			g := keyed.Limited{Key: "k", MaxRunning: 1}
			r.insert(row(1, g))
			_, ids := r.expect(1)
			old := r.begin() // a handler that acks in its own transaction
			_, err := old.Exec(t.Context(), "SELECT now()")
			r.ok(err)
			r.insert(row(2, g), row(3, g), row(4, g))
			r.exec("SELECT work_key_fold(1000)")
			since := ask[string](r, "SELECT clock_timestamp()::text")
			_, err = old.Exec(t.Context(), "UPDATE work SET status = 2, completed_at = clock_timestamp(), "+
				"locked_until = NULL WHERE id = $1", ids[0])
			r.ok(err)
			r.ok(old.Commit(t.Context()))
			r.exec(first)
			r.insert(row(5, g))
			r.exec(fmt.Sprintf("SELECT work_key_fold(1000, '%s')", since)) // the folder is further than the note
			r.exec("SELECT work_key_fold(1000)")
			if n := r.through(); n != 1 {
				t.Errorf("%d rows are through, the limit is 1\n%s", n, r.dump())
			}
		})
	}
}

// The same, if a fold takes only the first notes.
func TestACountAndNotesOfTheNextFoldCountOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mostPlacesAreMarked()
	g := keyed.Limited{Key: "k", MaxRunning: 1}
	r.insert(row(1, g))
	token, ids := r.expect(1)
	r.exec("DELETE FROM work_key_state") // as if row 1 had not been marked
	r.insert(row(2, g))
	r.insert(row(3, g))
	_, err := r.queue.Ack(t.Context(), token, ids)
	r.ok(err)
	r.exec("SELECT work_key_fold(1)")
	r.exec("SELECT work_key_fold(1000)")
	if n := r.through(); n != 1 {
		t.Errorf("%d rows are through, the limit is 1\n%s", n, r.dump())
	}
}

// The ordered rows of a key and its limited rows are independent of each other, in their places and in their notes.
func TestACountLeavesOrderedRowsOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.insert(row(1, keyed.Ordered{Key: "k"}))
	token, ids := r.expect(1)
	done["ack"](r, token, ids)
	since := ask[string](r, "SELECT clock_timestamp()::text") // its note is still to be folded
	r.insert(row(2, keyed.Limited{Key: "k", MaxRunning: 1}))
	r.exec(fmt.Sprintf("SELECT work_key_fold(1000, '%s')", since))
	r.expect(2)
}

// An ended row becomes Ready again without waiting, by plain SQL or by a domain such as timers.
func TestARowThatComesBackWithoutWaitingCounts(t *testing.T) {
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
			r.fold()
			r.exec("UPDATE work SET status = 0, attempts = 0, completed_at = NULL, owner_token = NULL, waiting = false")
			r.fold()
			r.insert(row(2, g), row(3, g))
			r.fold()
			if n := r.through(); n != 1 {
				t.Errorf("%d rows are through, the limit is 1\n%s", n, r.dump())
			}
		})
	}
}

// No limit is exceeded while settles, folds and inserts run at the same time, and keys get rows in work_key_state.
func TestLimitsHoldUnderLoad(t *testing.T) {
	t.Parallel()
	keys, rows := pgtest.Size(150, 700), int64(pgtest.Size(1500, 7000))
	r := newRig(t)
	r.exec("INSERT INTO work (n, concurrency_key, key_limit, key_policy) SELECT n, 'k' || n % $1, 1, 0 FROM "+
		"generate_series(1, $2) AS n", keys, rows)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	var all sync.WaitGroup
	var ended atomic.Int64
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil && ended.Load() < rows {
				token := workqueue.NewOwnerToken()
				claimed, err := r.queue.Claim(ctx, token, time.Minute, 50)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, row := range claimed {
					if _, err := r.queue.Ack(ctx, token, []uuid.UUID{row.ID}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					ended.Add(1)
				}
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil && ended.Load() < rows {
			if _, err := r.pool.Exec(ctx, "SELECT work_key_fold(1000)"); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for ended.Load() < rows {
		over := ask[int](r, "SELECT count(*) FROM (SELECT FROM work WHERE completed_at IS NULL AND NOT waiting GROUP "+
			"BY concurrency_key HAVING count(*) > 1) AS o")
		if over > 0 {
			t.Errorf("%d keys have more rows through than their limit of 1", over)
			cancel()
		}
		if ctx.Err() != nil {
			t.Fatalf("%d of %d rows have ended", ended.Load(), rows)
		}
		pgtest.Pass(20 * time.Millisecond)
	}
	all.Wait()
}
