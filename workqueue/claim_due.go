package workqueue

import (
	"context"
	"time"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A dueQuestion asks for the first due time in the lanes that was still to come when the question was asked before.
type dueQuestion struct {
	lanes [][]any
	since *time.Time // when it was asked before
	// The answer, by the database's clock.
	next  *dispatch.Wake
	asked time.Time
}

func (q *Queue) nextDue(ctx context.Context, d *dueQuestion) error { return q.exec.run(ctx, q.due(d)) }

// due is the question as a call. It is lazy, so that it can share the transaction of a claim: its answer may be lost
// like the claim.
func (q *Queue) due(d *dueQuestion) conn.Call {
	return conn.Call{
		Statement: q.table.statements.nextDue,
		Reads:     true,
		Lazy:      true,
		Args:      q.table.laneArgs(map[string]any{"since": d.since}, d.lanes),
		Reset:     func() { d.next = nil },
		Row: func(scan func(...any) error) error {
			var seconds *float64
			var due *time.Time
			err := scan(&d.asked, &seconds, &due)
			d.next = wakeAt(due, seconds)
			return err
		},
	}
}

// wakeAt is when a row is due, and in how many seconds; nil where there is none.
func wakeAt(due *time.Time, seconds *float64) *dispatch.Wake {
	if due == nil || seconds == nil {
		return nil
	}
	return &dispatch.Wake{At: *due, In: postgres.Seconds(*seconds)}
}
