package workqueue

import (
	"context"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// foldPatience is how long Fold waits for another session that folds.
const foldPatience = 5 * time.Second

// Bounds of the pauses after which one that folds tries again if another session was folding.
const (
	minBusyPause = 2 * time.Millisecond
	maxBusyPause = 50 * time.Millisecond
)

// Fold applies the notes that are due (Spec.Folds) until none is left, and returns how many it applied. Workers fold by
// themselves; if you claim with [Queue.Claim], call Fold first. It may run anywhere, any number of times.
//
// On a pool each call of a function is a transaction of its own, and Fold waits up to five seconds for another session
// that is folding. In an application's transaction it does not wait, but leaves the notes to the other session; and
// nobody else can fold until the transaction ends.
func (q *Queue) Fold(ctx context.Context) (int, error) {
	total, _, err := q.fold(ctx, foldPatience)
	return total, err
}

// TryFold is [Queue.Fold] without the wait. busy reports that another session is folding, which applies the rest. Use
// it for maintenance that is repeated anyway.
func (q *Queue) TryFold(ctx context.Context) (folded int, busy bool, err error) {
	return q.fold(ctx, 0)
}

// fold waits at most patience for another session that is folding.
func (q *Queue) fold(ctx context.Context, patience time.Duration) (total int, busy bool, err error) {
	var waited time.Duration
	for ctx.Err() == nil && len(q.table.spec.Folds) > 0 {
		r, err := q.foldOnce(ctx, make([]time.Time, len(q.table.spec.Folds)), "{}")
		total += r.folded
		switch _, own := q.exec.(poolExecutor); {
		case err != nil:
			return total, r.busy, err
		case r.folded > 0:
		case r.busy && own && waited < patience:
			time.Sleep(minBusyPause)
			waited += minBusyPause
		default:
			return total, r.busy, nil
		}
	}
	return total, false, ctx.Err()
}

// A foldResult sums up one call of all folds of a table.
type foldResult struct {
	folded, released int
	busy             bool          // another session was folding
	again            time.Duration // until the next note is due; negative: there is none
	ends             []foldEnd     // of each fold
	by               foldMark
}

// A foldMark identifies a transaction that folds. The notification of the rows that the fold releases carries the same
// values.
type foldMark struct {
	began   time.Time
	session uint32
}

// A foldEnd is how far a fold came.
type foldEnd struct {
	upto time.Time // zero: it applied no note
	full bool      // more notes may be due
}

// foldOnce calls each fold once. since says where each begins, fronts those of the process as JSON.
func (q *Queue) foldOnce(ctx context.Context, since []time.Time, fronts string) (r foldResult, err error) {
	bounds := make([]string, len(since))
	for i, at := range since {
		bounds[i] = position{due: at}.bound()
	}
	c := conn.Call{
		Statement: q.table.statements().fold,
		Args:      map[string]any{"max_notes": foldLimit, "since": bounds, "fronts": fronts},
		Lazy:      true, // if a crash undoes a fold, its notes are still there
		Reset:     func() { r = foldResult{again: -1} },
		Row:       func(scan func(...any) error) error { return r.add(scan) },
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Fold, foldLimit)
	err = q.exec.run(ctx, c)
	call.End(telemetry.Event{Changed: r.folded, Err: err})
	return r, err
}

// add reads what one of the folds has returned.
func (r *foldResult) add(scan func(...any) error) error {
	var folded, released *int
	var again *float64
	var upto *time.Time
	if err := scan(&folded, &released, &again, &upto, &r.by.began, &r.by.session); err != nil {
		return err
	}
	if folded == nil {
		r.busy = true
		r.ends = append(r.ends, foldEnd{})
		return nil
	}
	r.folded += *folded
	r.released += *released
	end := foldEnd{full: *folded > 0 && again != nil && *again <= 0}
	if upto != nil {
		end.upto = *upto
	}
	r.ends = append(r.ends, end)
	if again != nil {
		if in := max(postgres.Seconds(*again), 0); r.again < 0 || in < r.again {
			r.again = in
		}
	}
	return nil
}

// earliest is the first of two times, of which either may be missing.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
