package survey

import (
	"context"
	"time"
)

// An Overdue schedule has been due for some time and was not claimed since.
type Overdue struct {
	ID, Name, Expr string
	Late           float64
	Error          *string
}

// OverdueSchedules returns at most limit schedules of the table that have been due for longer than than, the longest
// overdue first.
func OverdueSchedules(ctx context.Context, r Reader, f *Facts, than time.Duration, limit int) ([]Overdue, error) {
	if !f.Schedule() {
		return nil, nil
	}
	return rows[Overdue](ctx, r, "overdue", f, than.Seconds(), limit)
}
