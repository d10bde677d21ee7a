package survey

import (
	"context"
	"time"
)

// An Overdue schedule has owed an occurrence for some time: no scheduler has claimed it since, or every claim failed.
type Overdue struct {
	ID, Name, Expr string
	Late           float64
	Error          *string
	Failures       int32 // claims that failed in a row
}

// OverdueSchedules returns at most limit schedules of the table that have owed an occurrence for longer than than, the
// longest overdue first.
func OverdueSchedules(ctx context.Context, r Reader, f *Facts, than time.Duration, limit int) ([]Overdue, error) {
	if !f.Schedule() {
		return nil, nil
	}
	return rows[Overdue](ctx, r, "overdue", f, than.Seconds(), limit)
}
