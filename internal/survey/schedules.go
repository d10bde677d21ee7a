package survey

import (
	"context"
	"slices"
	"time"
)

// An Overdue schedule has owed an occurrence for some time: no scheduler has claimed it since, or every claim failed.
type Overdue struct {
	ID, Name, Expr string
	Late           float64
	Error          *string
	Failures       int32 // claims that failed in a row
	More           bool  // there may be more than were looked at
}

// OverdueSchedules returns at most limit schedules of the table that have owed an occurrence for longer than than, the
// longest overdue first, and whether there may be more.
func OverdueSchedules(ctx context.Context, r Reader, f *Facts, than time.Duration, limit int) (list []Overdue,
	more bool, err error) {
	if !f.Schedule() {
		return nil, false, nil
	}
	list, err = rows[Overdue](ctx, r, "overdue", f, than.Seconds(), limit)
	more = len(list) >= limit || len(list) > 0 && list[0].More
	return slices.DeleteFunc(list, func(o Overdue) bool { return o.ID == "" }), more, err
}
