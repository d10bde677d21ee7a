package survey

import (
	"context"
	"time"
)

// LaterRows counts the rows of each lane that are not due yet. The number is in Seen.
func LaterRows(ctx context.Context, r Reader, f *Facts) ([]Head, error) {
	type lane struct {
		Lane []string
		Rows int64
	}
	lanes, err := rows[lane](ctx, r, "later", f)
	heads := make([]Head, len(lanes))
	for i, l := range lanes {
		heads[i] = Head{Lane: l.Lane, Seen: l.Rows}
	}
	return heads, err
}

// Held rows are held back: they wait for their turn in a key, or for a join.
type Held struct {
	Rows   int64
	Oldest float64 // seconds since the oldest was written
}

// HeldRows counts at most limit rows.
func HeldRows(ctx context.Context, r Reader, f *Facts, limit int) (Held, error) {
	return one[Held](ctx, r, "held", f, limit)
}

// DeadLetters counts rows that have failed for good and were not cancelled.
type DeadLetters struct {
	Rows   int64
	Recent int64
}

// CountDeadLetters counts the dead letters among the last limit rows that ended without success, and how many of them
// are recent.
func CountDeadLetters(ctx context.Context, r Reader, f *Facts, limit int, recent time.Duration) (DeadLetters, error) {
	return one[DeadLetters](ctx, r, "dead", f, limit, recent.Seconds())
}
