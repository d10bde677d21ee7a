package workqueue

import (
	"context"
	"sync"
	"time"

	"github.com/txwork/txwork/workqueue/dispatch"
)

// polled is a running worker as the [dispatch.Processor] of its own [dispatch.Poll].
type polled struct{ *Worker }

func (w polled) Namespace() string { return w.table.Name() }

// Process claims rows and hands them to the handlers until a claim returns fewer rows than there is room for.
func (w polled) Process(ctx context.Context) (int, error) {
	total := 0
	w.cool(ctx)
	for {
		want, err := w.flow.Await(ctx)
		if err != nil {
			return total, nil // stopping
		}
		w.claimedAt = time.Now()
		cancels := w.cancelsSeen.Load()
		rows, err := w.claim(ctx, want)
		if ctx.Err() != nil {
			w.flow.Close() // stopping: nothing of this claim is to be started
		}
		w.flow.Add(rows, want)
		if w.cancelsSeen.Load() != cancels {
			w.renewNow() // it may have been one of these rows
		}
		total += len(rows)
		if err != nil || len(rows) < want && !w.claimer.more {
			return total, err
		}
	}
}

// cool waits until the last claim is [WorkerOptions.ClaimCooldown] ago.
func (w polled) cool(ctx context.Context) {
	rest := time.Until(w.claimedAt.Add(w.options.ClaimCooldown))
	if rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// NextWakeAt is the next due time, or when the claimer looks again at rows that its cursor may have passed over.
func (w polled) NextWakeAt(ctx context.Context) (*dispatch.Wake, error) {
	var next *dispatch.Wake
	err := w.within(ctx, w.callTimeout(), func(ctx context.Context) (err error) {
		next, err = w.claimer.nextWake(ctx)
		return err
	})
	return next, err
}

// Look reports whether a claim would find a row, for less than a claim costs.
func (w polled) Look(ctx context.Context, woken <-chan struct{}) (found bool, next *dispatch.Wake, err error) {
	if w.table.spec.hasTopics() && w.claimer.topics.claimIsDue() {
		return true, nil, nil
	}
	return w.claimer.look(ctx, w.work, woken)
}

// RestUntilLook puts the looks of all workers of a process at the same moments.
func (w polled) RestUntilLook(interval time.Duration) time.Duration {
	return w.system.restUntilLook(interval)
}

// execute is one of the worker's handlers: it takes deliveries until there are no more. If a handler ends
// the goroutine (runtime.Goexit), another takes its place.
func (w *Worker) execute(handlers *sync.WaitGroup) {
	exited := true
	defer func() {
		if exited {
			handlers.Go(func() { w.execute(handlers) })
		}
	}()
	for {
		d, batch, ok := w.flow.Take()
		if !ok {
			exited = false
			return
		}
		if batch == nil {
			w.handleOne(d)
		} else {
			w.gatherBatch(d, batch)
		}
	}
}

// handleOne calls the handler of a row, and finishes also if that ends its goroutine.
func (w *Worker) handleOne(d *delivery) {
	defer w.finish(d)
	w.handle(d)
}

// finish gives the place of a delivery to another and passes its outcome on to be settled.
func (w *Worker) finish(d *delivery) {
	if w.flow.Finished(d, d.succeeded()) {
		w.poll.Wake()
	}
	w.settler.add(d)
}

// release returns rows that no handler has started, with their attempt.
func (w *Worker) release(rows []*delivery) {
	for _, d := range rows {
		d.decide(d.ctx, released)
		w.finish(d)
	}
}
