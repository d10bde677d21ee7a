package reaper

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// A task is one kind of work on one table, in batches.
type task struct {
	kind   string
	table  *workqueue.Table
	report *TableReport
	left   int  // how many more rows the round may process
	sweeps bool // it begins in a transaction that has done nothing, see [candidate.fencedLast]
	batch  func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error)

	// each is batch for a table in which rows are in the way, which it skips; nil: it cannot. Once a batch has failed,
	// each does the rest of the round. skips are the rows that it has skipped.
	each func(ctx context.Context, q *workqueue.Queue, limit int, except []uuid.UUID) (Counts, []workqueue.Skipped,
		error)
	careful bool
	skips   []uuid.UUID

	// apart are the tasks that take the place of one whose batch failed.
	apart []task
}

// eachBatch bounds the rows of one transaction that skips rows.
const eachBatch = 1000

// tasks returns the tasks of a table, the urgent one first. The sweeps and the folds are one task until it fails. Then
// each of them is one, so that a sweep that fails does not keep the others from their work.
func (o Options) tasks(table *workqueue.Table, report *TableReport) []task {
	spec := table.Spec()
	tasks := []task{{kind: "reap", left: math.MaxInt, batch: reap, each: reapEach}}
	if len(spec.Sweeps)+len(spec.Folds) > 0 {
		tasks = append(tasks, task{kind: "sweep", sweeps: true, batch: sweepAll})
		all := &tasks[len(tasks)-1].apart
		for _, suffix := range spec.Sweeps {
			*all = append(*all, task{kind: suffix, sweeps: true, batch: sweep(suffix)})
		}
		*all = append(*all, task{kind: "fold", batch: fold})
	}
	tasks = append(tasks, task{kind: "purge_done", batch: purgeDone(spec), each: purgeDoneEach(spec)})
	if spec.FailedRetention > 0 {
		tasks = append(tasks, task{kind: "purge_failed", batch: purgeFailed(spec), each: purgeFailedEach(spec)})
	}
	complete := func(tasks []task) {
		for i := range tasks {
			t := &tasks[i]
			t.table, t.report, t.left = table, report, cmp.Or(t.left, o.PurgeLimit)
		}
	}
	complete(tasks)
	for _, t := range tasks {
		complete(t.apart)
	}
	return tasks
}

// sweepAll runs the table's sweeps, and applies notes that were written while no worker ran.
func sweepAll(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
	n, err := q.Sweep(ctx, limit)
	_, folding := q.Fold(ctx)
	return Counts{Swept: n}, errors.Join(err, folding)
}

func reap(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
	r, err := q.ReapExpired(ctx, limit)
	return Counts{Requeued: r.Requeued, Failed: r.Failed}, err
}

func reapEach(ctx context.Context, q *workqueue.Queue, limit int, except []uuid.UUID) (Counts, []workqueue.Skipped,
	error) {
	r, skipped, err := q.ReapExpiredEach(ctx, limit, except)
	return Counts{Requeued: r.Requeued, Failed: r.Failed}, skipped, err
}

func sweep(suffix string) func(context.Context, *workqueue.Queue, int) (Counts, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
		n, err := q.SweepOne(ctx, suffix, limit)
		return Counts{Swept: n}, err
	}
}

func fold(ctx context.Context, q *workqueue.Queue, _ int) (Counts, error) {
	_, err := q.Fold(ctx)
	return Counts{}, err
}

func purgeDone(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int) (Counts, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
		n, err := q.PurgeDone(ctx, spec.Retention, limit)
		return Counts{PurgedDone: n}, err
	}
}

func purgeDoneEach(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int, []uuid.UUID) (Counts,
	[]workqueue.Skipped, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int, except []uuid.UUID) (Counts, []workqueue.Skipped,
		error) {
		n, skipped, err := q.PurgeEach(ctx, workqueue.Done, spec.Retention, limit, except)
		return Counts{PurgedDone: n}, skipped, err
	}
}

func purgeFailed(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int) (Counts, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
		n, err := q.PurgeFailed(ctx, spec.FailedRetention, limit)
		return Counts{PurgedFailed: n}, err
	}
}

func purgeFailedEach(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int, []uuid.UUID) (Counts,
	[]workqueue.Skipped, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int, except []uuid.UUID) (Counts, []workqueue.Skipped,
		error) {
		n, skipped, err := q.PurgeEach(ctx, workqueue.Failed, spec.FailedRetention, limit, except)
		return Counts{PurgedFailed: n}, skipped, err
	}
}
