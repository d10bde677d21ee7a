package workqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/flow"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A Domain binds a [Table] to the Go type of its domain columns.
type Domain[T any] struct {
	Table *Table
	// Columns lists the columns of the table with the fields of T in which a claim stores them, see [Columns]. Leave it
	// nil for a table without columns.
	Columns func(*T, *Columns)
	// Lanes are the lanes that a worker serves, the most urgent first: for each, the values of [Spec].Lanes. Leave it
	// empty for a table without lanes. A claim reads the lanes in this order until it is full. Every eighth claim
	// begins with one of the less urgent lanes, in turn, so that none starves. If the table has a [Spec].Admission, all
	// lanes of a worker must have the same value in that column.
	Lanes [][]any
	// Leaves, if set, is asked before the handler is called: an error means that this worker does not start the row,
	// and settles it, usually by [LeaveFor]. No metric and no span of handlers counts such a row.
	Leaves func(context.Context, *Claim[T]) error
}

// A Claim is a claimed row in the hands of its handler.
type Claim[T any] struct {
	Row
	Body T
	d    *delivery
}

// A Handler processes one claim. Its result settles the claim: nil acknowledges it, an [Outcome] says how to settle it,
// and any other error is a failed attempt. The context is cancelled when the lease is lost, when the row is cancelled,
// when the handler exceeds its timeout, and at the end of a shutdown's grace period; [context.Cause] returns the
// reason.
//
// Delivery is at least once: a handler may run again for a row that it has already processed. Writes through [Claim.Tx]
// take effect exactly once.
type Handler[T any] func(ctx context.Context, c *Claim[T]) error

// Tx runs fn in a READ COMMITTED transaction and settles the claim in it: the writes commit if and only if the settle
// does. The result of fn is the claim's outcome, as with a [Handler]: nil acknowledges it, and an [Outcome], such as
// [Snooze], [Permanent] or [RetryAfter], commits together with the writes. Any other error rolls the writes back, and
// Tx returns it; return it from the handler to settle the attempt as failed.
//
// Once Tx has returned nil, the claim is settled, whatever the handler returns. If the lease was lost, nothing is
// written and the error is [ErrLeaseLost]. If a statement in fn failed, the writes cannot be committed, and Tx returns
// even an Outcome for the handler to return. If fn ends the transaction by a statement, as with tx.Exec(ctx,
// "ROLLBACK"), nothing is settled, and Tx returns an error.
func (c *Claim[T]) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error { return c.d.tx(ctx, fn) }

// Causes of a cancelled handler context, in addition to [ErrLeaseLost].
var (
	// ErrRowCancelled is the cause when the row was cancelled.
	ErrRowCancelled = errors.New("row was cancelled")
	// ErrShutdown is the cause when the worker stops and its grace period is over.
	ErrShutdown = errors.New("worker is shutting down")
)

// A delivery is one claimed row on its way through a worker.
type delivery struct {
	claimedRow
	worker  *Worker
	ctx     context.Context
	cancel  context.CancelCauseFunc
	expires atomic.Int64 // when the lease expires at the latest, in nanoseconds of the worker's monotonic clock
	lost    atomic.Bool
	claimed int64        // when, in nanoseconds of the worker's monotonic clock
	within  atomic.Int64 // how long the handler may run before it is reported; 0: as the worker's options say
	overdue bool         // reported as running for longer; used by renewals only
	txErr   error        // Tx has failed
	// settling is set while Tx commits: a renewal that finds the row settled has then found our own settle.
	settling atomic.Bool
	settled  atomic.Pointer[Outcome] // by Tx

	place flow.Place // guarded by the buffer
}

// RunsWithin says how long the handler may run before its row is reported as one that does not return, see
// [WorkerOptions].RunsWithin: from the claim, negative for never. It may be called at any time, and several times, such
// as by a handler that has found out how much there is to do. The next renewal of the lease records it.
func (c *Claim[T]) RunsWithin(d time.Duration) {
	if c.d != nil {
		c.d.within.Store(int64(d))
	}
}

// runsWithin is how long the handler may run before it is reported; 0 for ever.
func (d *delivery) runsWithin() time.Duration {
	return max(cmp.Or(time.Duration(d.within.Load()), d.worker.options.RunsWithin), 0)
}

func (d *delivery) ref() claimRef { return claimRef{d.ID, d.Token} }

// folds tells that a settle writes notes, and that the worker folds them.
func (d *delivery) folds() bool {
	return d.noted && d.worker.folder != nil && d.worker.folder.able.Load()
}

func (d *delivery) settlement(ctx context.Context, o *Outcome) settlement {
	return settlement{
		claimRef: d.ref(), outcome: o, message: d.worker.stored(ctx, o), row: &d.claimedRow,
	}
}

// abort cancels the handler's context.
func (d *delivery) abort(cause error) {
	if errors.Is(cause, ErrLeaseLost) {
		d.lost.Store(true)
	}
	d.cancel(cause)
}

// errGoexit is the error of a handler that ended its goroutine without returning, and ended its outcome.
var (
	errGoexit = errors.New("handler ended its goroutine (runtime.Goexit)")
	ended     = retried(errGoexit)
)

// run calls the handler and finishes the delivery, with a nil outcome if Tx has settled the claim. It does so in a
// deferred function, which also runs if the handler ends its goroutine.
func (d *delivery) run() {
	if o := d.left(); o != nil {
		d.worker.finish(d, o)
		return
	}
	start := time.Now()
	ctx, call := d.worker.table.telemetry.Handle(d.ctx, d.row(), start, d.worker.dbClock.of(start).Sub(d.DueAt))
	result := ended
	defer func() {
		settled := d.settled.Load()
		o := d.conclude(result)
		call.End(d.handled(ctx, cmp.Or(settled, o)))
		if settled != nil {
			o = nil
		}
		d.worker.finish(d, o)
	}()
	result = d.call(ctx)
}

// handled is how the handler's call ended, for telemetry.
func (d *delivery) handled(ctx context.Context, o *Outcome) telemetry.Handled {
	if o.kind != outcomeRetry && o.kind != outcomeFail {
		return telemetry.Handled{Left: o.kind == outcomeLeave}
	}
	return telemetry.Handled{Failed: true, Dead: o.kind == outcomeFail || d.Attempt >= d.MaxAttempts,
		Type: o.errorType, Error: d.worker.stored(ctx, o)}
}

// left returns how to settle a row that the domain does not start; nil if it does. If the domain panics, the handler is
// called, as for every row.
func (d *delivery) left() (o *Outcome) {
	leaves := d.worker.leaves
	if leaves == nil || d.unreadable != nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			o = nil
		}
	}()
	if err := leaves(d.ctx, d); err != nil {
		return outcomeOf(err)
	}
	return nil
}

// call runs the handler and reads its result. A panic is a failed attempt, whose error has the stack.
func (d *delivery) call(ctx context.Context) (result *Outcome) {
	defer func() {
		if r := recover(); r != nil {
			result = retried(fmt.Errorf("panic: %v\n%s", r, debug.Stack())).read()
			result.errorType = "panic"
		}
	}()
	if d.unreadable != nil {
		return outcomeOf(d.unreadable)
	}
	if timeout := d.worker.options.HandlerTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("handler exceeded its timeout of %v", timeout))
		defer cancel()
	}
	err := d.worker.handle(ctx, d)
	if err == nil && d.settled.Load() == nil {
		err = d.txErr // a handler that drops this error must not ack what was rolled back
	}
	return outcomeOf(err)
}

// conclude makes the outcome from the handler's result and from the reason for which its context was cancelled.
func (d *delivery) conclude(o *Outcome) *Outcome {
	if o.kind != outcomeRetry {
		return o
	}
	switch cause := context.Cause(d.ctx); {
	case errors.Is(cause, ErrShutdown):
		return interrupted
	case errors.Is(cause, ErrRowCancelled):
		return &Outcome{kind: outcomeCancel, cause: o.cause}
	}
	return o
}

func (d *delivery) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	if d.settled.Load() != nil {
		return errors.New("txwork: the claim is settled already: call Tx once")
	}
	d.txErr = errTxPanicked
	d.txErr = d.withCause(d.runTx(ctx, fn))
	return d.txErr
}

// withCause adds the reason to an error that only says that the handler's context was cancelled.
func (d *delivery) withCause(err error) error {
	cause := context.Cause(d.ctx)
	if cause == nil || !contain.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errTxPanicked is d.txErr until Tx has returned: a handler that recovers from a panic in Tx must not acknowledge.
var errTxPanicked = errors.New("txwork: the function that was given to Tx panicked")

func (d *delivery) runTx(ctx context.Context, fn func(pgx.Tx) error) (err error) {
	if d.folds() {
		defer d.worker.folder.settles()()
	}
	tx, release, err := d.worker.begin(ctx, d)
	if err != nil {
		return fmt.Errorf("txwork: opening the handler's transaction: %w", explain(err))
	}
	defer release()
	defer func() { endTx(tx, err) }()
	result := fn(handlerTx{tx})
	if result != nil && chosen(result) == nil {
		return result
	}
	if tx.Conn().PgConn().TxStatus() == 'E' {
		return aborted(result)
	}
	o := outcomeOf(result)
	if err := d.settleIn(ctx, tx, o); err != nil {
		return err
	}
	d.worker.noteSettled(o)
	return nil
}

// begin opens the transaction of a row's handler. Call release when it has ended.
func (w *Worker) begin(ctx context.Context, d *delivery) (tx pgx.Tx, release func(), err error) {
	if w.outer != nil { // a savepoint
		if tx, err = w.outer.Begin(ctx); err == nil {
			_, err = tx.Exec(ctx, "SELECT "+markSet(d.ID))
		}
		return tx, func() {}, err
	}
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err = conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: d.beginText()})
	if err != nil {
		conn.Release()
	}
	return tx, conn.Release, err
}

// aborted is the result of a transaction in which a statement failed, so that it cannot be committed. An outcome that
// the handler chose, such as Permanent, is returned, and settled without the transaction.
func aborted(result error) error {
	if result == nil {
		return errors.New("txwork: a statement of the handler's transaction failed and its error was not returned: " +
			"the writes are rolled back")
	}
	return result
}

// endTx rolls back a transaction that was not committed. It closes the connection if the server has become read-only,
// so that the pool connects to the primary.
func endTx(tx pgx.Tx, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if postgres.IsReadOnly(cause) {
		tx.Conn().Close(ctx)
	}
	tx.Rollback(ctx) // after a commit this does nothing
}

// handlerTx keeps a handler from committing its writes without the settle.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error {
	return errors.New("txwork: Claim.Tx commits the transaction, together with the settle")
}

// settleIn settles the claim in the handler's transaction, and commits it. A settle that changes nothing is an error
// even if it was applied before: the writes were then committed with it, and must not be written twice.
func (d *delivery) settleIn(ctx context.Context, tx pgx.Tx, o *Outcome) error {
	w := d.worker
	ctx, call := w.table.telemetry.Start(ctx, telemetry.Settle, 1)
	q := &Queue{table: w.table, exec: begunTx{w.executorOf(tx), tx, d.ID}}
	done, err := q.settle(ctx, []settlement{d.settlement(ctx, o)})
	if err == nil && len(done.ids) == 0 {
		err = &SettleError{Table: w.table.Name(), Lost: []uuid.UUID{d.ID}}
	}
	if fault.IsVoid(err) {
		d.abort(ErrLeaseLost)
	}
	if err == nil {
		if err = d.commit(ctx, tx, o); err != nil {
			done = settled{}
		}
	}
	call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
	return err
}

func (d *delivery) commit(ctx context.Context, tx pgx.Tx, o *Outcome) error {
	d.settling.Store(true)
	if err := tx.Commit(ctx); err != nil {
		d.settling.Store(false)
		return fmt.Errorf("txwork: committing the handler's transaction: %w", err)
	}
	d.settled.Store(o)
	return nil
}

// executorOf runs the settle of a handler's transaction. In a transaction of the application the settings would outlive
// the savepoint, so there they are restored.
func (w *Worker) executorOf(tx pgx.Tx) executor {
	if w.outer != nil {
		return pgxTx{tx}
	}
	return ownTx{tx}
}

// ownTx runs calls in a transaction that then only commits. Its settings need not be restored, and if the process
// freezes before the commit, the server soon ends the session.
type ownTx struct{ tx pgx.Tx }

func (t ownTx) run(ctx context.Context, calls ...conn.Call) error {
	return explain(conn.RunLast(ctx, t.tx, calls))
}
