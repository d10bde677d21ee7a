package workqueue

import (
	"slices"
	"time"

	"github.com/txwork/txwork/workqueue/internal/fault"
)

const (
	// runTries is how often the settle of a run is tried while the database answers.
	runTries = 10
	// maxRunPause bounds the pauses between tries, which double.
	maxRunPause = time.Second
)

// settleRuns settles runs, together first, and if that fails each by itself. What cannot be settled is left to its
// leases. It is the handler's goroutine that does so, and not a settler, which would divide the rows of a run if one of
// them cannot be settled.
func (w *Worker) settleRuns(runs []*run) {
	batches := make([][]*settlement, len(runs))
	for i, r := range runs {
		for _, d := range r.rows {
			if s := d.toSettle(); s != nil {
				batches[i] = append(batches[i], s)
			}
		}
	}
	if len(runs) == 0 || w.trySettle(slices.Concat(batches...)) == nil {
		return
	}
	for _, batch := range batches {
		w.settleRun(batch)
	}
}

func (w *Worker) settleRun(batch []*settlement) {
	ctx := w.settler.ctx
	for try := 0; ; try++ {
		err := w.trySettle(batch)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			w.forget(batch...) // their leases expire
			return
		}
		if try >= runTries && !fault.IsOutage(err) {
			w.leaveToLease(batch, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(10*time.Millisecond<<min(try, 8), maxRunPause)):
		}
	}
}

// trySettle settles whole runs.
func (w *Worker) trySettle(batch []*settlement) error {
	if len(batch) == 0 {
		return nil
	}
	_, err := w.settle(w.settler.ctx, batch, batchLimits)
	if !fault.IsUnsettled(err) {
		return nil
	}
	for _, s := range batch {
		s.waits++
	}
	return err
}
