package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/txwork/txwork/workqueue/internal/flow"
)

const (
	// DefaultBatchLimit is where the share of a message in the cost of a request is small with most receivers.
	DefaultBatchLimit = 100
	// DefaultBatchBytes is what most brokers take in one request.
	DefaultBatchBytes = 1 << 20
	// MaxBatchLimit bounds what one call of a handler may repeat.
	MaxBatchLimit = 1000
)

// BatchOptions bound the batches of a handler. The zero value is usable.
type BatchOptions struct {
	// Limit is how many messages a batch has at most. Default: [DefaultBatchLimit]; at most [MaxBatchLimit].
	Limit int
	// Bytes is how many bytes of payload, as they are stored, a batch has at most. A single message may have more.
	// Default: [DefaultBatchBytes]. Negative: any number.
	Bytes int
	// Linger is how long the first message of a batch waits for others, unless the batch is full. Default: not at all.
	// The batch then has the messages that are claimed already.
	Linger time.Duration
}

func (o BatchOptions) validate() error {
	switch {
	case o.Limit < 0 || o.Limit > MaxBatchLimit:
		return invalid("batch limit", "is %d, it must be between 1 and %d, or 0 for the default", o.Limit,
			MaxBatchLimit)
	case o.Linger < 0:
		return invalid("batch linger", "is %v, it cannot be negative", o.Linger)
	}
	return nil
}

// A BatchHandler processes several claims in one call. Each result settles the claim with the same index as that of a
// [Handler] does: nil acknowledges it, an [Outcome] says how to settle it, and any other error is a failed attempt. No
// results, and no error, acknowledge all of them.
//
// An error is about the call and not about one of its claims; then results are not read. An Outcome that uses up no
// attempt, such as [Snooze], settles all claims of the batch. After any other error, a panic, a timeout, or results of
// another number than claims, the batch is halved: the handler is called with each half, until each claim has been in a
// call that succeeded or has failed alone, which is a failed attempt. So a claim that cannot be processed costs others
// no attempt, but the handler is called again for claims that it may have processed, within the same attempt. Rows that
// may be attempted once only are called alone, and never again.
//
// If twice as many calls as a bisection takes have failed and none has succeeded, the remaining claims are put back:
// the attempt does not count. They are due again after a pause that grows while no call succeeds, up to the cap of the
// table's backoff.
//
// A batch of a worker may have several claims of one ordered key, see package keyed: consecutive ones, in their order.
// No other worker has claims of that key. If one of them is not acknowledged, all behind it of its key are put back,
// their attempt does not count, and they are processed again after it, whatever their results say: stop at the first
// claim of a key that cannot be processed. In the halves of a batch that failed, claims behind one that has failed
// alone are not processed before it. They are settled when all claims of the batch are decided.
//
// The context is cancelled when the call exceeds its timeout, when all of its claims are cancelled or lost, and at the
// end of a shutdown's grace period. It carries the span of the call. The handler may keep the slice.
type BatchHandler[T any] func(ctx context.Context, batch []*Claim[T]) ([]error, error)

// A Batch says how rows are handled together, see [NewBatch].
type Batch[T any] struct{ batching }

// batching is a Batch whose type is erased.
type batching struct {
	options BatchOptions
	size    func(*delivery) int // of its payload
	handle  func(context.Context, []*delivery) ([]error, error)
	failing atomic.Pointer[failing] // nil: the last calls have not
	heads   atomic.Int32            // how many first rows of ordered keys a batch has at most, 0: any number
}

// A failing is a time in which all calls of a batch's handler have failed.
type failing struct{ since, last time.Time }

// failedFor notes that all calls of a run have failed, and returns for how long those of the runs before have, too.
// What failed too long before the run began says nothing about it: other workers may have found out that it works
// again.
func (b *batching) failedFor(began, now time.Time, tooLong time.Duration) time.Duration {
	f := failing{now, now}
	if before := b.failing.Load(); before != nil && began.Sub(before.last) <= tooLong {
		f.since = before.since
	}
	b.failing.Store(&f)
	return now.Sub(f.since)
}

// NewBatch makes a batch with its handler. Size returns how many of the [BatchOptions].Bytes a row has; without it, all
// have none.
func NewBatch[T any](o BatchOptions, size func(*T) int, handler BatchHandler[T]) (*Batch[T], error) {
	if handler == nil {
		return nil, invalid("batch handler", "is nil")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Limit, o.Bytes = cmp.Or(o.Limit, DefaultBatchLimit), cmp.Or(o.Bytes, DefaultBatchBytes)
	b := &Batch[T]{batching{options: o, size: func(*delivery) int { return 0 }}}
	if size != nil && o.Bytes > 0 {
		b.size = func(d *delivery) int {
			defer func() { _ = recover() }() // a row whose size is not known has none
			return max(size(&d.body.(*Claim[T]).Body), 0)
		}
	}
	b.handle = func(ctx context.Context, rows []*delivery) ([]error, error) {
		claims := make([]*Claim[T], len(rows))
		for i, d := range rows {
			claims[i] = claimOf[T](d)
		}
		return handler(ctx, claims)
	}
	return b, nil
}

// Limit is how many messages the batch has at most.
func (b *Batch[T]) Limit() int { return b.options.Limit }

// from are the limits of a batch that begins with a row. A row that may be attempted once only is alone: what is halved
// begins several times.
func (b *batching) from(first *delivery) flow.Batch[*delivery] {
	limit, most, bytes := b.options.Limit, uint(b.options.Bytes), uint(b.size(first)) // a negative one is very large
	heads, mostHeads := 1, int(b.heads.Load())
	if first.MaxAttempts == 1 || bytes >= most {
		limit = 1
	}
	return flow.Batch[*delivery]{Limit: limit, Linger: b.options.Linger, Accept: func(d *delivery) (joins, full bool) {
		if d.batching != b || d.MaxAttempts == 1 {
			return false, false
		}
		if mostHeads > 0 && d.folds() {
			if heads == mostHeads {
				return false, false
			}
			heads++
		}
		bytes += uint(b.size(d))
		return bytes <= most, bytes >= most
	}}
}

// learn notes whether the runs of a batch were as long as it has room for. Then its keys have more rows than one
// handler takes, so the next batches have fewer keys, and other handlers take the rest at the same time.
func (b *batching) learn(heads int, long bool) {
	most := int(b.heads.Load())
	switch {
	case long && heads > 1:
		most = heads / 2
	case !long && 2*most >= b.options.Limit:
		most = 0
	case !long:
		most *= 2
	}
	b.heads.Store(int32(most))
}

// A batchCall is a call of a batch's handler.
type batchCall struct {
	rows   []*delivery
	cancel context.CancelCauseFunc
}

// beginCall makes the context of a call, which is cancelled when all of its rows are.
func beginCall(rows []*delivery) (context.Context, *batchCall) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(rows[0].ctx))
	c := &batchCall{rows, cancel}
	for _, d := range rows {
		d.txErr = nil
		d.batchCall.Store(c)
	}
	c.aborted(context.Cause(rows[0].ctx)) // they may have been before
	return ctx, c
}

// aborted cancels the call if all of its rows are cancelled.
func (c *batchCall) aborted(cause error) {
	for _, d := range c.rows {
		if d.ctx.Err() == nil {
			return
		}
	}
	c.cancel(cause)
}

// end ends the call's context.
func (c *batchCall) end() {
	for _, d := range c.rows {
		d.batchCall.Store(nil)
	}
	c.cancel(nil)
}

// call calls the handler in a goroutine of its own, which it may end, and reads what it returns. Either each row has an
// outcome, or there is one of the call.
func (b *batching) call(ctx context.Context, timeout time.Duration, rows []*delivery) (each []*Outcome, all *Outcome) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = withTimeout(ctx, timeout)
		defer cancel()
	}
	all = exited
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		defer func() {
			if r := recover(); r != nil {
				all = panicked(r)
			}
		}()
		results, err := b.handle(ctx, rows)
		if n := len(results); err == nil && n != 0 && n != len(rows) {
			err = errResults(n, len(rows))
		}
		if err != nil {
			all = outcomeOf(err)
			return
		}
		each, all = outcomesOf(rows, results), nil
	}()
	<-returned
	return each, all
}

func errResults(results, rows int) error {
	return fmt.Errorf("the batch handler returned %d results for %d messages", results, rows)
}

// outcomesOf reads the results of rows; none: all are done. It has none for rows that are to be called again.
func outcomesOf(rows []*delivery, results []error) []*Outcome {
	each := make([]*Outcome, len(rows))
	for i, d := range rows {
		var err error
		if len(results) > 0 {
			err = results[i]
		}
		if err = d.orTxErr(err); err != errAgain {
			each[i] = outcomeOf(err)
		}
	}
	return each
}

// errUntried is the cause of rows that are put back because all calls have failed.
type errUntried struct{ last *Outcome }

func (e errUntried) Error() string {
	return "all calls of its batch failed, the last with: " + text(e.last.cause)
}

// costs reports whether an outcome uses up an attempt or ends the row.
func (o *Outcome) costs() bool {
	return o.kind == outcomeRetry || o.kind == outcomeFail || o.kind == outcomeCancel
}
