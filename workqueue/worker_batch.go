package workqueue

import (
	"context"
	"errors"
	"slices"
	"sync"

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

// handleBatch waits until the batch of a delivery has its rows, runs their handler, and passes their outcomes on to be
// settled as they are decided. If the worker stops while the batch gathers, it puts the rows back.
func (w *Worker) handleBatch(first *delivery, batch *flow.Gathering[*delivery]) {
	rows, begins := w.flow.Gather(batch)
	if !begins {
		w.release(rows)
		return
	}
	passed, succeeded := 0, false
	pass := func(d *delivery) {
		passed++
		succeeded = succeeded || d.succeeded()
		if d.run == nil {
			w.settler.add(d)
		}
	}
	defer func() {
		if passed < len(rows) { // a hook of the application has ended the goroutine
			for _, d := range rows {
				if d.byTx.Load() != nil || !d.settling.Load() {
					pass(d)
				}
			}
		}
		w.settleRuns(runsOf(rows))
		if w.flow.FinishedBatch(first, len(rows), succeeded) {
			w.poll.Wake()
		}
	}()
	rows = w.takeRuns(first.batching, rows)
	for r := w.newBatchRun(rows); r.more(); {
		for _, d := range r.step() {
			pass(d)
		}
	}
}

// runBatches is runAll where some rows are handled together.
func (d *drain) runBatches(rows []*delivery) (outcomes []*settlement) {
	places := make(chan struct{}, d.concurrency)
	var running sync.WaitGroup
	for _, unit := range d.batchesOf(rows) {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }() // also if the handler ends its goroutine
			if unit[0].batching == nil {
				d.handle(unit[0])
				return
			}
			for r := d.newBatchRun(unit); r.more(); {
				r.step()
			}
		})
	}
	running.Wait()
	for _, row := range rows {
		if s := row.toSettle(); s != nil {
			outcomes = append(outcomes, s)
		} else {
			d.forget(&row.settlement)
		}
	}
	return outcomes
}

// batchesOf divides claimed rows into those that are run alone and those that are run together.
func (d *drain) batchesOf(rows []*delivery) (units [][]*delivery) {
	rows = slices.Clone(rows)
	for len(rows) > 0 {
		unit, limits, full := []*delivery{rows[0]}, flow.Batch[*delivery]{Limit: 1}, false
		if b := rows[0].batching; b != nil {
			limits = b.from(rows[0])
		}
		rows = slices.DeleteFunc(rows[1:], func(row *delivery) (joins bool) {
			if full || len(unit) >= limits.Limit {
				return false
			}
			if joins, full = limits.Accept(row); joins {
				unit = append(unit, row)
			}
			return joins
		})
		units = append(units, unit)
	}
	return units
}
