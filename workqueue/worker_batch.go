package workqueue

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue/internal/flow"
)

// NewBatchWorker makes a worker whose handler gets several claims in one call, see [BatchHandler]. The worker's
// Concurrency is how many batches are handled at once. All else is as with [NewWorker].
func NewBatchWorker[T any](pool *pgxpool.Pool, domain Domain[T], batch *Batch[T], o WorkerOptions) (*Worker, error) {
	if batch == nil {
		return nil, invalid("batch", "is nil")
	}
	alone := func(context.Context, *Claim[T]) error { return errors.New("txwork: the row has no batch") }
	w, err := NewWorker(pool, domain, alone, o)
	if err != nil {
		return nil, err
	}
	return w, SetBatches(w, func(*T) *Batch[T] { return batch }, batch.Limit())
}

// SetBatches makes a worker handle rows together for which batchOf returns the same batch, and those for which it
// returns nil alone. It is for domains some of whose rows have batches, and is called before the worker or a [Drain] of
// it runs. The worker claims so many rows for each of its handlers as each says: the limit of the batches if all rows
// have one, and 1 if not, because rows that are handled alone would wait.
func SetBatches[T any](w *Worker, batchOf func(*T) *Batch[T], each int) error {
	switch {
	case batchOf == nil:
		return invalid("batchOf", "is nil")
	case each < 1 || each > MaxBatchLimit:
		return invalid("each", "is %d, it must be between 1 and %d", each, MaxBatchLimit)
	case w.started.Load():
		return errors.New("txwork: the worker has been started already")
	}
	w.each = each
	w.flow.SetBatches(each, func(first *delivery) (batch flow.Batch[*delivery], ok bool) {
		if first.batching != nil {
			batch = first.batching.from(first)
		}
		return batch, first.batching != nil
	})
	w.batches = func(d *delivery) (of *batching) {
		if d.unreadable != nil {
			return nil
		}
		defer func() { _ = recover() }() // of batchOf: the row is handled alone
		if b := batchOf(&d.body.(*Claim[T]).Body); b != nil {
			of = &b.batching
		}
		return of
	}
	return nil
}

// gatherBatch waits until the batch of a delivery has its rows, has them handled, and passes their outcomes on to be
// settled as they are decided. If the worker stops while the batch gathers, it puts the rows back.
func (w *Worker) gatherBatch(first *delivery, batch *flow.Gathering[*delivery]) {
	rows, begins := w.flow.Gather(batch)
	if !begins {
		w.release(rows)
		return
	}
	ended, succeeded := 0, false
	defer func() { // also if a hook of the application ends the goroutine
		w.settleRuns(runsOf(rows))
		if w.flow.FinishedBatch(first, ended, succeeded) {
			w.poll.Wake()
		}
	}()
	w.handleBatch(rows, func() {}, func(d *delivery) {
		ended++
		succeeded = succeeded || d.succeeded()
		if d.run == nil {
			w.settler.add(d)
		}
	})
}
