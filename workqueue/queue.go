package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/dispatch"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// Status is the state of a row.
type Status int16

const (
	Ready      Status = 0 // may be claimed once it is due
	InProgress Status = 1 // claimed: a worker holds an owner token and a lease
	Done       Status = 2 // acknowledged
	Failed     Status = 3 // the dead letter: kept until an operator decides
)

var statusNames = [...]string{"ready", "in_progress", "done", "failed"}

func (s Status) String() string {
	if s < Ready || s > Failed {
		return fmt.Sprintf("status(%d)", int16(s))
	}
	return statusNames[s]
}

// ParseStatus reads what [Status.String] writes.
func ParseStatus(name string) (Status, error) {
	i := slices.Index(statusNames[:], name)
	if i < 0 {
		return 0, invalid("status", "%q is unknown, want one of %v", name, statusNames)
	}
	return Status(i), nil
}

const (
	// MinLease is the shortest lease: below it a stop-the-world pause looks like a crash.
	MinLease = time.Second
	// MaxLease is the longest: a lease is how long a crash goes unnoticed.
	MaxLease = 24 * time.Hour
	// MaxBatch bounds the rows of one claim and of one settle: the arrays and locks of a single statement.
	MaxBatch = 10_000
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

// A Row is a claimed row.
type Row struct {
	ID          uuid.UUID
	Token       uuid.UUID // the claim: every settle names it
	DueAt       time.Time
	CreatedAt   time.Time
	Attempt     int // 1 is the first
	MaxAttempts int
	Headers     map[string]string
	Values      []any // the domain's columns, in the order of Spec.Columns and without the internal ones
}

// Claim takes up to limit due rows, in due order, for the length of the lease. The owner token names
// this claim in every later settle: use a fresh one for every call, such as uuid.New(), since a process
// that stalls past its lease and claims a row again must not be able to settle it with its old claim.
//
// A table with lanes needs a value for each, in the order of Spec.Lanes. With [Table.In] the claim
// holds once the transaction commits: start no work before.
func (q *Queue) Claim(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int, lanes ...any) ([]Row,
	error) {
	req := claimRequest{owner: owner, lease: lease, limit: limit, lanes: []claimLane{{values: lanes}},
		target: q.table.anyTarget}
	if err := q.table.checkClaim(req); err != nil {
		return nil, err
	}
	if q.table.spec.Admission != "" {
		req.rule = new(verdict)
	}
	if q.table.spec.hasTopics() {
		req.topics = &topicQuestion{anybody: true}
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Claim, limit)
	claimed, err := q.claim(ctx, req)
	call.End(telemetry.Event{IDs: rowIDs(claimed), Rows: deliveries(claimed), Err: err})
	return publicRows(claimed), err
}

// Ack settles rows as Done.
func (q *Queue) Ack(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Ack, owner, ids, &Outcome{kind: outcomeAck})
}

// Abandon settles rows as a failed attempt: Ready again after the delay, or Failed where the attempts
// are used up or a cancel was asked for. The cause is stored as the row's last error.
func (q *Queue) Abandon(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Abandon, owner, ids, &Outcome{kind: outcomeRetry, delay: delay,
		cause: message(cause)})
}

// Retry is [Queue.Abandon] with the delay of the table's own backoff.
func (q *Queue) Retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Abandon, owner, ids, &Outcome{kind: outcomeRetry, delay: unnamedDelay,
		cause: message(cause)})
}

// Fail settles rows as Failed, whatever attempts are left.
func (q *Queue) Fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Fail, owner, ids, &Outcome{kind: outcomeFail, cause: message(cause)})
}

// Snooze puts rows back for the delay and gives their attempt back.
func (q *Queue) Snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID,
	error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, &Outcome{kind: outcomeSnooze, delay: delay})
}

// Leave puts rows back for the delay that have not started, for other workers, see [LeaveFor]. The cause is stored as
// their last error.
func (q *Queue) Leave(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	if err := checkDelay(delay); err != nil {
		return nil, err
	}
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, &Outcome{kind: outcomeLeave, delay: delay,
		cause: message(cause)})
}

// Release puts rows back where they were that have not started, and gives their attempt back. Limits and rates do not
// count them as started.
func (q *Queue) Release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return q.settleOp(ctx, telemetry.Snooze, owner, ids, released)
}

func (q *Queue) settleOp(ctx context.Context, op telemetry.Operation, owner uuid.UUID, ids []uuid.UUID,
	o *Outcome) ([]uuid.UUID, error) {
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	ctx, call := q.table.telemetry.Start(ctx, op, len(ids))
	done, err := q.settle(ctx, settleAll(owner, ids, o), triedOnce)
	call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
	return done.ids, err
}

// Extend moves the end of the rows' lease to lease from now. Rows that are locked this moment, because
// their settle is being committed, are neither changed nor reported as lost.
func (q *Queue) Extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID,
	error) {
	if err := cmp.Or(checkLease(lease), checkBatch(ids)); err != nil {
		return nil, err
	}
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Extend, len(ids))
	extended, err := q.extend(ctx, claimRefs(owner, ids), lease, nil)
	call.End(telemetry.Event{IDs: extended.ids, Err: err})
	return extended.ids, err
}

// Cancel ends Ready rows as Failed with cancelled_at set. For rows in progress it records the request and tells the
// workers: the handler's context is cancelled, and unless the handler acks all the same the row ends when it is
// settled. Rows that have ended, or were cancelled before, are left alone.
func (q *Queue) Cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error) {
	if err := checkBatch(ids); err != nil {
		return nil, err
	}
	return q.idsOp(ctx, telemetry.Cancel, q.table.statements.cancel, ids, map[string]any{
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
	stmt := q.table.statements.redrive
	changed, err := q.idsOp(ctx, telemetry.Redrive, stmt, ids, map[string]any{
		"actor": conn.OptionalNote(conn.Storable(actor)),
	})
	if stmt.Retakes && fault.IsTaken(err) {
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

// MaxReturns is how many leases a row may lose together with other rows of its process without an attempt, see
// [Queue.ReapExpired].
const MaxReturns = 5

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
// their owner tokens are equal, so for tokens such as uuid.New() each claim is a process of its own.
func (q *Queue) ReapExpired(ctx context.Context, limit int) (Reaped, error) {
	if err := checkLimit(limit); err != nil {
		return Reaped{}, err
	}
	var r Reaped
	var cancelled int
	var dead []byte
	ctx, call := q.table.telemetry.Start(ctx, telemetry.Reap, limit)
	err := q.exec.run(ctx, conn.Call{
		Statement: q.table.statements.reapExpired,
		Args:      map[string]any{"max_rows": limit},
		Row:       func(scan func(...any) error) error { return scan(&r.Requeued, &r.Failed, &cancelled, &dead) },
	})
	call.End(telemetry.Event{Changed: r.Requeued + r.Failed, Failed: r.Failed, Cancelled: cancelled, DeadLetters: dead,
		Err: err})
	return r, err
}

// PurgeDone deletes up to limit rows that were acknowledged or cancelled longer ago than age, oldest first.
func (q *Queue) PurgeDone(ctx context.Context, age time.Duration, limit int) (int, error) {
	return q.purge(ctx, q.table.statements.purgeDone, "done", age, limit)
}

// PurgeFailed deletes up to limit dead letters, which failed longer ago than age, oldest first.
func (q *Queue) PurgeFailed(ctx context.Context, age time.Duration, limit int) (int, error) {
	return q.purge(ctx, q.table.statements.purgeFailed, "dead_letter", age, limit)
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

// NextWakeAt tells the first due time of a Ready row or the first end of a lease, whichever is earlier.
// It is nil when the table holds no live row.
func (q *Queue) NextWakeAt(ctx context.Context) (*dispatch.Wake, error) {
	return q.wake(ctx, q.table.statements.nextWake, nil)
}

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
		Statement: q.table.statements.stats,
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
