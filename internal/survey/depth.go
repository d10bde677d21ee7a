package survey

import (
	"context"
	"time"
)

// LaterRows counts the rows of each lane that are not due yet, as Seen.
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

// Held rows wait for something else: their turn, or a join.
type Held struct {
	Rows   int64
	Oldest float64 // seconds since it was written
}

// HeldRows counts up to so many.
func HeldRows(ctx context.Context, r Reader, f *Facts, limit int) (Held, error) {
	return one[Held](ctx, r, "held", f, limit)
}

// DeadLetters are rows that have failed for good and that nobody has cancelled.
type DeadLetters struct {
	Rows   int64
	Recent int64
}

// CountDeadLetters counts those among the last so many that ended without success, and the recent among them.
func CountDeadLetters(ctx context.Context, r Reader, f *Facts, limit int, recent time.Duration) (DeadLetters, error) {
	return one[DeadLetters](ctx, r, "dead", f, limit, recent.Seconds())
}
