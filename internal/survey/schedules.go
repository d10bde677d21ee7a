package survey

import (
	"context"
	"time"
)

// An Overdue schedule is one that was due some time ago and that nobody has claimed since.
type Overdue struct {
	ID, Name, Expr string
	Late           float64
	Error          *string
}

// OverdueSchedules are so many of the table's that have been due for longer, the latest first.
func OverdueSchedules(ctx context.Context, r Reader, f *Facts, than time.Duration, limit int) ([]Overdue, error) {
	if !f.Schedule() {
		return nil, nil
	}
	return rows[Overdue](ctx, r, "overdue", f, than.Seconds(), limit)
}
