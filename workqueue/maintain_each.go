package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Skipped is a row that maintenance could not process, for example because a foreign key of the application keeps it
// from being deleted.
type Skipped struct {
	ID    uuid.UUID `json:"id"`
	Error string    `json:"error"` // with its SQLSTATE
}

func (s Skipped) String() string { return s.ID.String() + ": " + s.Error }

// ReapExpiredEach is [Queue.ReapExpired] for a table in which rows are in the way: it skips the rows that cannot be
// requeued and returns them. except are rows that it does not try, such as those that the call before has skipped. It
// takes longer than ReapExpired, so call it only when that fails. It returns an error if the rows are not the cause,
// for example because the role lacks a right.
func (q *Queue) ReapExpiredEach(ctx context.Context, limit int, except []uuid.UUID) (Reaped, []Skipped, error) {
	e, err := q.each(ctx, telemetry.Reap, q.table.statements().reapExpired.Name, "", 0, limit, except)
	return Reaped{Requeued: e.done, Failed: e.failed}, e.skipped, err
}

// PurgeEach is [Queue.PurgeDone], or [Queue.PurgeFailed] if the status is Failed, for a table in which rows are in the
// way, see [Queue.ReapExpiredEach].
func (q *Queue) PurgeEach(ctx context.Context, status Status, age time.Duration, limit int, except []uuid.UUID) (int,
	[]Skipped, error) {
	statement, state := q.table.statements().purgeDone, "done"
	switch status {
	case Done:
	case Failed:
		statement, state = q.table.statements().purgeFailed, "dead_letter"
	default:
		return 0, nil, invalid("status", "is %v, it must be %v or %v", status, Done, Failed)
	}
	e, err := q.each(ctx, telemetry.Purge, statement.Name, state, age, limit, except)
	return e.done, e.skipped, err
}

// An eachResult is what the function each of a table has done.
type eachResult struct {
	done, failed, cancelled int
	dead                    []byte // see telemetry.Event
	skipped                 []Skipped
}

// each does one kind of maintenance. state says which rows a purge deletes.
func (q *Queue) each(ctx context.Context, op telemetry.Operation, kind, state string, age time.Duration, limit int,
	except []uuid.UUID) (e eachResult, err error) {
	if err := cmp.Or(checkDelay(age), checkLimit(limit)); err != nil {
		return e, err
	}
	c := conn.Call{
		Statement: numbered("each", fmt.Sprintf("SELECT e.done, e.failed, e.cancelled, e.dead_letters, s.id, s.problem "+
			"FROM %s(@kind::text, @max_rows::int, @age::interval, @except::uuid[]) AS e "+
			"LEFT JOIN LATERAL unnest(e.skipped, e.problems) AS s (id, problem) ON true", q.table.view.Function("each"))),
		Args: map[string]any{"kind": kind, "max_rows": limit, "age": conn.Interval(age),
			"except": append([]uuid.UUID{}, except...)},
		Reset: func() { e = eachResult{} },
		Row: func(scan func(...any) error) error {
			var id *uuid.UUID
			var problem *string
			err := scan(&e.done, &e.failed, &e.cancelled, &e.dead, &id, &problem)
			if id != nil && problem != nil {
				e.skipped = append(e.skipped, Skipped{*id, *problem})
			}
			return err
		},
	}
	ctx, call := q.table.telemetry.Start(ctx, op, limit)
	if err = q.exec.run(ctx, c); err != nil {
		e = eachResult{}
	}
	call.End(telemetry.Event{Changed: e.done + e.failed, State: state, Failed: e.failed, Cancelled: e.cancelled,
		DeadLetters: e.dead, Err: err})
	return e, err
}
