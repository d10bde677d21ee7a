package workqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/header"
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
//
// A batch may have several claims of an ordered key. Transactions settle these in their order: Tx and [BatchTx] refuse
// a claim if one before it in the batch, of the same key, was not acknowledged by a transaction.
func (c *Claim[T]) Tx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if c.d == nil {
		return errors.New("txwork: the claim is none of a worker, so it has no transaction")
	}
	return c.d.tx(ctx, fn)
}

// Causes of a cancelled handler context, in addition to [ErrLeaseLost].
var (
	// ErrRowCancelled is the cause when the row was cancelled.
	ErrRowCancelled = errors.New("row was cancelled")
	// ErrShutdown is the cause when the worker stops and its grace period is over.
	ErrShutdown = errors.New("worker is shutting down")
)

// A delivery is one claimed row on its way through an engine.
type delivery struct {
	*claimedRow
	settlement settlement // what the handler's result makes of it
	engine     *engine
	ctx        context.Context
	cancel     context.CancelCauseFunc
	expires    atomic.Int64 // when the lease expires at the latest, in nanoseconds of the engine's clock
	lost       atomic.Bool
	claimed    int64        // when, in nanoseconds of the engine's clock
	runLimit   atomic.Int64 // how long the handler may run before it is reported; 0: as the worker's options say
	overdue    bool         // reported as running for longer; used by renewals only
	ended      bool         // [engine.handleBatch] has passed its outcome on
	txErr      error        // Tx has failed
	batching   *batching    // how it is handled together with others; nil: alone
	run        *run         // of its ordered key; nil: none
	batchCall  atomic.Pointer[batchCall]
	// settling is set from the outcome on, and while Tx commits: a renewal that finds the row settled has then found
	// our own settle.
	settling atomic.Bool
	byTx     atomic.Pointer[settlement] // what Tx has settled

	place flow.Place // guarded by the buffer
}

// claimOf is the delivery as its handler sees it.
func claimOf[T any](d *delivery) *Claim[T] {
	c := d.body.(*Claim[T])
	if c.d == nil { // once: what an earlier call of a batch's handler has started may still read it
		c.Row, c.d = d.Row, d
	}
	return c
}

// deliveries implement [telemetry.Rows].
type deliveries []*delivery

func (d deliveries) Len() int { return len(d) }

func (d deliveries) Row(i int) telemetry.Row { return d[i].row() }

// RunsWithin says how long the handler may run before its row is reported as one that does not return, see
// [WorkerOptions].RunsWithin: from the claim, negative for never. It may be called at any time, and several times, such
// as by a handler that has found out how much there is to do. The next renewal of the lease records it.
func (c *Claim[T]) RunsWithin(d time.Duration) {
	if c.d != nil {
		c.d.runLimit.Store(int64(d))
	}
}

// runsWithin is how long the handler may run before it is reported; 0 for ever.
func (d *delivery) runsWithin() time.Duration {
	return max(cmp.Or(time.Duration(d.runLimit.Load()), d.engine.handling.RunsWithin), 0)
}

// folds tells that a settle writes notes, and that the worker folds them.
func (d *delivery) folds() bool {
	return d.noted && d.engine.notes != nil && d.engine.notes.able.Load()
}

// abort cancels the handler's context.
func (d *delivery) abort(cause error) {
	if errors.Is(cause, ErrLeaseLost) {
		d.lost.Store(true)
	}
	d.cancel(cause)
	if c := d.batchCall.Load(); c != nil {
		c.aborted(cause)
	}
}

// Place implements [flow.Row].
func (d *delivery) Place() *flow.Place { return &d.place }

// lostLeases reads what the reaper has recorded in the row's headers; nil: nothing.
func (r *Row) lostLeases(clock *dbClock) *flow.Losses {
	at, marked := r.Headers[header.LostAt]
	if !marked {
		return nil
	}
	last, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil
	}
	return &flow.Losses{Alone: lostCount(r.Headers[header.LostAlone]),
		Together: lostCount(r.Headers[header.LostTogether]), Ago: clock.of(time.Now()).Sub(last)}
}

func lostCount(header string) int {
	n, _ := strconv.ParseUint(header, 10, 16) // producers may write any header
	return int(n)
}

// checkColumns reports why claims of the table cannot be stored by a list.
func checkColumns[T any](t *Table, list func(*T, *Columns)) error {
	c := Columns{purpose: listing}
	if list != nil {
		list(new(T), &c)
	}
	listed := slices.DeleteFunc(c.list, func(c Column) bool { return c.Internal })
	same := slices.EqualFunc(listed, t.claimed, func(a, b Column) bool { return a.Name == b.Name })
	if !same {
		return invalid("domain", "lists the columns (%s), claims of %s return (%s): Columns lists those, in this order",
			names(listed), t.Name(), names(t.claimed))
	}
	return c.problem
}
