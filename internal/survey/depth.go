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
	return fill(f, f.HeadRows, func(f *Facts) ([]Head, error) {
		lanes, err := rows[lane](ctx, r, "later", f)
		heads := make([]Head, len(lanes))
		for i, l := range lanes {
			heads[i] = Head{Lane: l.Lane, Seen: l.Rows}
		}
		return heads, err
	})
}

// Held rows are held back: they wait for their turn in a key, or for a join.
type Held struct {
	Rows   int64
	Oldest float64 // seconds since the oldest was written
	More   bool    `db:"-"` // there may be more rows than the limit
}

// HeldRows counts at most limit rows.
func HeldRows(ctx context.Context, r Reader, f *Facts, limit int) (Held, error) {
	held, err := one[Held](ctx, r, "held", f, limit)
	held.More = held.Rows >= int64(limit)
	return held, err
}

// HeldLane is how many rows of a queue, or what the first column of the table's lanes is, are held back.
type HeldLane struct {
	Name string
	Rows int64
}

// HeldLanes counts at most limit rows of all lanes together, and tells whether there may be more.
func HeldLanes(ctx context.Context, r Reader, f *Facts, limit int) (lanes []HeldLane, more bool, err error) {
	lanes, err = rows[HeldLane](ctx, r, "held_lanes", f, limit)
	seen := int64(0)
	for _, l := range lanes {
		seen += l.Rows
	}
	return lanes, seen >= int64(limit), err
}

// DeadLetters counts rows that have failed for good and were not cancelled.
type DeadLetters struct {
	Rows   int64
	Recent int64
	More   bool // there may be more rows, older than those that were counted
}

// RecentMore tells whether there may be more recent dead letters.
func (d DeadLetters) RecentMore() bool { return d.More && d.Recent == d.Rows }

// passed is how many times as many rows that ended without success may be looked at as dead letters are counted: the
// others were cancelled.
const passed = 10

// CountDeadLetters counts at most limit dead letters, the latest first, and how many of them are recent.
func CountDeadLetters(ctx context.Context, r Reader, f *Facts, limit int, recent time.Duration) (DeadLetters, error) {
	return one[DeadLetters](ctx, r, "dead", f, limit, recent.Seconds(), passed*limit)
}

// Unsuccessful are rows that ended without success.
type Unsuccessful struct {
	Failed, Cancelled int64
	More              bool `db:"-"` // there may be more of both, older than those that were counted
}

// CountUnsuccessful counts at most limit rows, the latest first.
func CountUnsuccessful(ctx context.Context, r Reader, f *Facts, limit int) (Unsuccessful, error) {
	u, err := one[Unsuccessful](ctx, r, "unsuccessful", f, limit)
	u.More = u.Failed+u.Cancelled >= int64(limit)
	return u, err
}
