package costs_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

const claimLimit = 100

// TestNothingBehindTheCursorIsRead compares the first claims of a worker with those two hundred claims later, while a
// snapshot keeps everything that was claimed in the table and in its indexes.
func TestNothingBehindTheCursorIsRead(t *testing.T) {
	const (
		apart  = 200
		window = 50
		skip   = 10 // the first claims look up what no session has cached
		total  = skip + window + apart
		spare  = total / 10 // some claims have less room
	)
	q := newLab(t).rows()
	q.insert(claimLimit) // tells the planner what the table is like
	defer q.holdSnapshot()()
	full := q.fullClaims(total + spare)
	if len(full) < total {
		t.Fatalf("%d claims took %d rows, want %d such claims", len(full), claimLimit, total)
	}
	early, late := median(full[skip:skip+window]), median(full[skip+apart:skip+apart+window])
	t.Logf("a claim of %d rows reads %d pages, and %d after %d more", claimLimit, early, late, apart)
	if float64(late) > cursorRatio*float64(early) {
		t.Errorf("a claim of %d rows reads %d pages, %d claims later %d, want at most %v times that", claimLimit, early,
			apart, late, cursorRatio)
	}
}

// median ignores sweeps, which start behind the cursor but are rare.
func median(claims []executed) int {
	pages := make([]int, len(claims))
	for i, c := range claims {
		pages[i] = c.buffers()
	}
	slices.Sort(pages)
	return pages[len(pages)/2]
}

// holdSnapshot opens a transaction like that of a long report, or one that was forgotten.
func (l *lab) holdSnapshot() (release func()) {
	l.Helper()
	tx, err := l.db.BeginTx(l.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	l.ok(err)
	_, err = tx.Exec(l.Context(), "SELECT FROM pg_class LIMIT 1")
	l.ok(err)
	return func() { l.ok(tx.Rollback(context.Background())) }
}

// fullClaims lets a worker claim a hundred rows at a time, and returns its claims of a hundred rows.
func (q *rowTable) fullClaims(n int) (full []executed) {
	q.Helper()
	var handled atomic.Int64
	o := workqueue.WorkerOptions{
		Concurrency: 2 * claimLimit, ClaimLimit: 2 * claimLimit,
		PollInterval: time.Millisecond, // it does not listen, and a claim after a long pause would be a sweep
	}
	stop := q.run(q.worker(q.watched(), o, func() error { handled.Add(1); return nil }))
	for i := range n {
		q.eventually("all rows are handled", func() bool { return handled.Load() >= int64((i+1)*claimLimit) })
		q.ok(pgx.BeginFunc(q.Context(), q.db, func(tx pgx.Tx) error {
			_, err := q.table.Insert(q.Context(), workqueue.Pgx(tx), make([]workqueue.NewRow, claimLimit)...)
			return err
		}))
	}
	stop()
	return slices.DeleteFunc(claims(q.seen.list(q.lab)), func(e executed) bool { return e.Plan.Rows != claimLimit })
}
