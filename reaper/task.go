package reaper

import (
	"context"
	"errors"
	"math"

	"github.com/txwork/txwork/workqueue"
)

// A task is one kind of work on one table, in batches.
type task struct {
	table  *workqueue.Table
	report *TableReport
	left   int // how many more rows the round may process
	batch  func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error)
}

// tasks returns the tasks of a table, the urgent one first.
func (o Options) tasks(table *workqueue.Table, report *TableReport) []task {
	spec := table.Spec()
	tasks := []task{{table, report, math.MaxInt, reap}}
	if len(spec.Sweeps)+len(spec.Folds) > 0 {
		tasks = append(tasks, task{table, report, o.PurgeLimit, sweep})
	}
	tasks = append(tasks, task{table, report, o.PurgeLimit, purgeDone(spec)})
	if spec.FailedRetention > 0 {
		tasks = append(tasks, task{table, report, o.PurgeLimit, purgeFailed(spec)})
	}
	return tasks
}

func reap(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
	r, err := q.ReapExpired(ctx, limit)
	return Counts{Requeued: r.Requeued, Failed: r.Failed}, err
}

// sweep runs the table's sweeps, and applies notes that were written while no worker ran.
func sweep(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
	n, err := q.Sweep(ctx, limit)
	_, folding := q.Fold(ctx)
	return Counts{Swept: n}, errors.Join(err, folding)
}

func purgeDone(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int) (Counts, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
		n, err := q.PurgeDone(ctx, spec.Retention, limit)
		return Counts{PurgedDone: n}, err
	}
}

func purgeFailed(spec workqueue.Spec) func(context.Context, *workqueue.Queue, int) (Counts, error) {
	return func(ctx context.Context, q *workqueue.Queue, limit int) (Counts, error) {
		n, err := q.PurgeFailed(ctx, spec.FailedRetention, limit)
		return Counts{PurgedFailed: n}, err
	}
}
