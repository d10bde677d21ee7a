package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Queue is the low-level operations on one table, through a pool ([Table.On]) or inside an
// application's transaction ([Table.In]). It is as safe for concurrent use as what it runs on.
//
// Every operation returns the ids it really changed. A settle or extend that did not change all it was
// asked to change also returns a [*SettleError].
type Queue struct {
	table *Table
	exec  executor
}

// Cancel ends Ready rows as Failed with cancelled_at set. For rows in progress it records the request and tells the
// workers: the handler's context is cancelled, and unless the handler acks all the same the row ends when it is
// settled. Rows that have ended, or were cancelled before, are left alone.
func (q *Queue) Cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error) {
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	return q.idsOp(ctx, telemetry.Cancel, q.table.statements().cancel, ids, map[string]any{
		"reason": conn.Note(conn.Storable("cancelled: " + text(message(reason)))),
	})
}

// Redrive makes Failed rows Ready again, with all their attempts. Who asked and when is kept in the
// headers txwork-redriven-by and txwork-redriven-at; an empty actor is the database's session user.
//
// A row that gave its unique value up when it failed takes it again, see [Spec.FreedColumn]. While another row holds
// the value it stays Failed; of several rows of one value, that which failed first is redriven. Redrive waits for
// transactions that are writing such a value. If one has, an error says so, which with [Table.In] leaves the
// transaction to be rolled back.
func (q *Queue) Redrive(ctx context.Context, ids []uuid.UUID, actor string) ([]uuid.UUID, error) {
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	stmt := q.table.statements().redrive
	changed, err := q.idsOp(ctx, telemetry.Redrive, stmt, ids, map[string]any{
		"actor": conn.OptionalNote(conn.Storable(actor)),
	})
	if stmt.Retakes && postgres.IsTaken(err) {
		err = fmt.Errorf("txwork: another row of %s took the unique value of one of these rows meanwhile, so none was "+
			"redriven: redrive again: %w", q.table.Name(), err)
	}
	return changed, err
}

// idsOp need not sort the ids: the scan of the primary key visits those of any array in its own order.
func (q *Queue) idsOp(ctx context.Context, op telemetry.Operation, stmt conn.Statement, ids []uuid.UUID,
	args map[string]any) ([]uuid.UUID, error) {
	args["ids"] = ids
	var changed []uuid.UUID
	ctx, call := q.table.telemetry.Start(ctx, op, len(ids))
	err := q.exec.run(ctx, collectIDs(stmt, args, &changed))
	call.End(telemetry.Event{IDs: changed, Err: err})
	return changed, err
}

// Reaped is what a reap did.
type Reaped struct {
	Requeued int `json:"requeued"` // rows that are ready again
	Failed   int `json:"failed"`   // rows whose attempts are used up, or whose cancel was asked for
}

// ReapExpired requeues up to limit rows whose lease has expired: they become Ready again with backoff, or Failed if
// their attempts are used up. Safe to run anywhere, any number of times.
//
// A lease that a row loses together with others of the same process does not count as an attempt, up to [MaxReturns]
// times and until the row has lost one alone: any of those rows may have ended the process. It always counts for a row
// with one attempt, which may have begun and must not begin twice. Rows belong to one process if the first 48 bits of
// their owner tokens are equal, see [NewOwnerToken].
func (q *Queue) ReapExpired(ctx context.Context, limit int) (Reaped, error) {
	if err := checkLimit(limit); err != nil {
		return Reaped{}, err
	}
	var r Reaped
	var cancelled int
	var dead []byte
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Reap, limit)
	err := q.exec.run(ctx, conn.Call{
		Statement: q.table.statements().reapExpired,
		Args:      map[string]any{"max_rows": limit},
		Row:       func(scan func(...any) error) error { return scan(&r.Requeued, &r.Failed, &cancelled, &dead) },
	})
	call.End(telemetry.Event{Changed: r.Requeued + r.Failed, Failed: r.Failed, Cancelled: cancelled, DeadLetters: dead,
		Err: err})
	return r, err
}

// PurgeDone deletes up to limit rows that were acknowledged or cancelled longer ago than age, oldest first.
func (q *Queue) PurgeDone(ctx context.Context, age time.Duration, limit int) (int, error) {
	return q.purge(ctx, q.table.statements().purgeDone, "done", age, limit)
}

// PurgeFailed deletes up to limit dead letters, which failed longer ago than age, oldest first.
func (q *Queue) PurgeFailed(ctx context.Context, age time.Duration, limit int) (int, error) {
	return q.purge(ctx, q.table.statements().purgeFailed, "dead_letter", age, limit)
}

func (q *Queue) purge(ctx context.Context, stmt conn.Statement, state string, age time.Duration,
	limit int) (int, error) {
	if err := cmp.Or(checkDelay(age), checkLimit(limit)); err != nil {
		return 0, err
	}
	var deleted []uuid.UUID
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Purge, limit)
	err := q.exec.run(ctx, collectIDs(stmt, map[string]any{"age": conn.Interval(age), "max_rows": limit}, &deleted))
	call.End(telemetry.Event{IDs: deleted, State: state, Err: err})
	return len(deleted), err
}

// NextWakeAt tells the first due time of a Ready row, the first end of a lease, or the first end of the rest of a topic
// with a row for a probe, whichever is earliest. It is nil when there is none of them: rows of paused topics, and rows
// that wait for a key or a join, wake nobody.
func (q *Queue) NextWakeAt(ctx context.Context) (*dispatch.Wake, error) {
	return q.wake(ctx, q.table.statements().nextWake, nil)
}

func (q *Queue) wake(ctx context.Context, stmt conn.Statement, args map[string]any) (*dispatch.Wake, error) {
	var wake *dispatch.Wake
	err := q.exec.run(ctx, conn.Call{
		Statement: stmt,
		Args:      args,
		Reads:     true,
		Row: func(scan func(...any) error) error {
			var seconds float64
			wake = new(dispatch.Wake)
			err := scan(&seconds, &wake.At)
			wake.In = postgres.Seconds(seconds)
			return err
		},
	})
	return wake, err
}

// Stats is a table's depth and age. Done rows are not counted: that would cost a scan of all of them.
type Stats struct {
	Ready       int64         `json:"ready"`        // due now
	Scheduled   int64         `json:"scheduled"`    // due later
	InProgress  int64         `json:"in_progress"`  // claimed
	Expired     int64         `json:"expired"`      // of those, with an ended lease
	Waiting     int64         `json:"waiting"`      // held back: behind their key, or for a join
	Failed      int64         `json:"failed"`       // dead letters
	Cancelled   int64         `json:"cancelled"`    // ended by a cancel; not among the dead letters
	OldestReady time.Duration `json:"oldest_ready"` // how long the oldest due row has waited
	Partial     bool          `json:"partial"`      // row-level security hides rows from the role
}

// Live is how many rows have not ended: zero once everything is settled.
func (s Stats) Live() int64 { return s.Ready + s.Scheduled + s.InProgress + s.Waiting }

// Stats counts the live rows and the dead letters. Its cost grows with their number.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := q.exec.run(ctx, conn.Call{
		Statement: q.table.statements().stats,
		Reads:     true,
		Row: func(scan func(...any) error) error {
			var seconds float64
			err := scan(&s.Ready, &s.Scheduled, &s.InProgress, &s.Expired, &s.Waiting, &s.Failed, &s.Cancelled,
				&seconds, &s.Partial)
			s.OldestReady = postgres.Seconds(seconds)
			return err
		},
	})
	return s, err
}

func collectIDs(stmt conn.Statement, args map[string]any, ids *[]uuid.UUID) conn.Call {
	var id uuid.UUID
	dest := []any{&id} // once for all rows
	return conn.Call{
		Statement: stmt,
		Args:      args,
		Reset:     func() { *ids = nil },
		Row: func(scan func(...any) error) error {
			if err := scan(dest...); err != nil {
				return err
			}
			*ids = append(*ids, id)
			return nil
		},
	}
}

// Exec runs a statement of the domain that the table is of, see [Tx]. On a pool it is a transaction of its own.
func (q *Queue) Exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	err = q.inTx(ctx, func(tx Tx) error {
		affected, err = tx.Exec(ctx, sql, args...)
		return err
	})
	return affected, err
}

// Query runs a statement of the domain that the table is of, see [Tx]. On a pool it is a transaction of its own.
func (q *Queue) Query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string,
	args ...any) error {
	return q.inTx(ctx, func(tx Tx) error { return tx.Query(ctx, row, sql, args...) })
}

func (q *Queue) inTx(ctx context.Context, fn func(Tx) error) error {
	switch e := q.exec.(type) {
	case Tx:
		return fn(e)
	case poolExecutor:
		return postgres.Renewed(func() error { return InTx(ctx, e.Conns, fn) })
	}
	return invalid("queue", "was not made by Table.In or Table.On")
}
