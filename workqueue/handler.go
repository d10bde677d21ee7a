package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// A Domain binds a [Table] to the Go type of its domain columns.
type Domain[T any] struct {
	Table *Table
	// Fields returns pointers to the fields that hold Spec.Columns, in their order.
	Fields func(*T) []any
}

// A Claim is a claimed row in the hands of its handler.
type Claim[T any] struct {
	Row
	Body T
	d    *delivery
}

// A Handler works on one claim. Its result settles the claim: nil acks it, an [Outcome] says how, any
// other error is a failed attempt. The context is cancelled when the lease is lost, when the row is
// cancelled, when the handler's time is up, and late in a shutdown; [context.Cause] tells which.
//
// Delivery is at least once: a handler may run again for a row whose effect it has had. Writes through
// [Claim.Tx] have their effect exactly once.
type Handler[T any] func(ctx context.Context, c *Claim[T]) error

// Tx runs fn in a transaction and settles the claim in it: the writes commit if and only if the settle
// does. The result of fn is the claim's outcome, as with a [Handler]: nil acks, and an [Outcome], such
// as [Snooze] or [Permanent], is settled together with the writes. Any other error rolls the writes back
// and is returned; return it from the handler to settle the attempt as failed.
//
// After Tx has returned nil the claim is settled, whatever the handler returns. If the lease was lost,
// nothing is written and the error is [ErrLeaseLost].
func (c *Claim[T]) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error { return c.d.tx(ctx, fn) }

// Causes of a cancelled handler context, beside [ErrLeaseLost].
var (
	// ErrRowCancelled says that somebody cancelled the row.
	ErrRowCancelled = errors.New("row was cancelled")
	// ErrShutdown says that the worker stops and its grace period is over.
	ErrShutdown = errors.New("worker is shutting down")
)

// A delivery is one claimed row on its way through a worker.
type delivery struct {
	claimedRow
	worker  *Worker
	ctx     context.Context
	cancel  context.CancelCauseFunc
	expires atomic.Int64 // when the lease ends at the latest, in nanoseconds of the worker's monotonic clock
	lost    atomic.Bool
	settled bool  // Tx has settled the claim
	txErr   error // Tx has failed
}

func (d *delivery) ref() claimRef { return claimRef{d.ID, d.Token} }

// abort cancels the handler's context.
func (d *delivery) abort(cause error) {
	if errors.Is(cause, ErrLeaseLost) {
		d.lost.Store(true)
	}
	d.cancel(cause)
}

// run calls the handler and says how the claim is to be settled; nil when it is settled already.
func (d *delivery) run() *Outcome {
	tel := d.worker.table.telemetry
	ctx, span := tel.processing(d.ctx, d.Row)
	start := time.Now()
	err := d.call(ctx)
	o := d.conclude(err)
	tel.processed(ctx, span, o, time.Since(start))
	if d.settled {
		return nil
	}
	return o
}

// call contains panics: they are failed attempts, with the stack as their error.
func (d *delivery) call(ctx context.Context) (err error) {
	returned := false
	defer func() {
		switch r := recover(); {
		case r != nil:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		case !returned: // runtime.Goexit: the deferred calls run, the caller does not
			err = errors.New("handler ended its goroutine")
			d.worker.finish(d, d.conclude(err))
		}
	}()
	if timeout := d.worker.options.HandlerTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("handler exceeded its timeout of %v", timeout))
		defer cancel()
	}
	err = d.worker.handle(ctx, d)
	returned = true
	return err
}

// conclude makes an outcome of the handler's result and of what happened meanwhile.
func (d *delivery) conclude(err error) *Outcome {
	if err == nil && !d.settled && d.txErr != nil {
		err = d.txErr // a handler that drops this error must not ack what was rolled back
	}
	o := outcomeOf(err)
	if o.kind != outcomeRetry {
		return o
	}
	switch cause := context.Cause(d.ctx); {
	case errors.Is(cause, ErrShutdown):
		return &Outcome{kind: outcomeRelease}
	case errors.Is(cause, ErrRowCancelled):
		return &Outcome{kind: outcomeCancel, cause: o.cause}
	}
	return o
}

func (d *delivery) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	if d.settled {
		return errors.New("txwork: the claim is settled already: call Tx once")
	}
	d.txErr = d.runTx(ctx, fn)
	return d.txErr
}

func (d *delivery) runTx(ctx context.Context, fn func(pgx.Tx) error) error {
	tx, err := d.worker.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("txwork: opening the handler's transaction: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // after a commit this does nothing
	result := fn(tx)
	o := outcomeOf(result)
	var deliberate *Outcome
	if result != nil && !errors.As(result, &deliberate) {
		return result
	}
	if err := d.settleIn(ctx, tx, o); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("txwork: committing the handler's transaction: %w", err)
	}
	d.settled = true
	d.worker.noteSettled(o)
	return nil
}

// settleIn settles the claim in the handler's transaction. A settle that changes nothing is an error
// even if it was applied before: then the writes were, too, and must not be written twice.
func (d *delivery) settleIn(ctx context.Context, tx pgx.Tx, o *Outcome) error {
	w := d.worker
	return w.table.telemetry.transition(ctx, opSettle, 1, func(ctx context.Context) (changed []uuid.UUID, err error) {
		q := &Queue{table: w.table, exec: ownTx{tx}}
		batch := []settlement{{d.ref(), o, w.stored(ctx, o)}}
		changed, err = q.settle(ctx, batch)
		if err == nil && len(changed) == 0 {
			err = &SettleError{Table: w.table.Name(), Lost: []uuid.UUID{d.ID}}
		}
		if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrGone) {
			d.abort(ErrLeaseLost)
		}
		return changed, err
	})
}

// ownTx runs calls in a transaction that does nothing after them but commit, so the plan settings need
// not be given back.
type ownTx struct{ tx pgx.Tx }

func (t ownTx) run(ctx context.Context, calls ...call) error {
	encode := pgxEncoder(t.tx.Conn())
	batch := &pgx.Batch{}
	batch.Queue(pinText)
	for _, c := range calls {
		batch.Queue(c.text, c.arguments(encode)...)
	}
	results := t.tx.SendBatch(ctx, batch)
	_, err := results.Exec()
	for i := 0; err == nil && i < len(calls); i++ {
		err = readCall(results, calls[i])
	}
	return explain(errors.Join(err, results.Close()))
}
