package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A round is one leader's work on all tables, once.
type round struct {
	candidate candidate
	pool      connections
	options   Options
	term      int64
	renewed   time.Time
	errs      []error // of single tables
}

// run serves the tables. The error tells what kept it from serving all of them to the end; the report
// holds what was done all the same.
func (r *round) run(ctx context.Context, tables []*workqueue.Table) (Report, error) {
	report := Report{Leader: true, Term: r.term, Tables: make([]TableReport, len(tables))}
	for i, table := range tables {
		report.Tables[i].Table = table.Name()
	}
	start := time.Now()
	err := r.serve(ctx, tables, report.Tables)
	report.Duration = time.Since(start)
	for _, t := range report.Tables {
		report.More = report.More || t.More
	}
	return report, errors.Join(append(r.errs, err)...)
}

// serve lets the tasks take turns, one batch each, until none has anything left to do.
func (r *round) serve(ctx context.Context, tables []*workqueue.Table, reports []TableReport) error {
	tasks, err := r.plan(ctx, tables, reports)
	for err == nil && len(tasks) > 0 {
		tasks, err = r.pass(ctx, tasks)
	}
	return err
}

// plan lists what is to be done, expired leases before retention, for the tables that this version of
// the library may touch.
func (r *round) plan(ctx context.Context, tables []*workqueue.Table, reports []TableReport) ([]task, error) {
	var urgent, rest []task
	for i, table := range tables {
		err := r.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return table.CheckVersion(ctx, conn) })
		if err != nil {
			if err := r.blame(ctx, &reports[i], err); err != nil {
				return nil, err
			}
			continue
		}
		tasks := r.options.tasks(table, &reports[i])
		urgent = append(urgent, tasks[0])
		rest = append(rest, tasks[1:]...)
	}
	return append(urgent, rest...), nil
}

// pass runs one batch of each task and returns the tasks that have more to do.
func (r *round) pass(ctx context.Context, tasks []task) ([]task, error) {
	var pending []task
	for _, t := range tasks {
		if t.report.Error != "" {
			continue // its other tasks would meet the same
		}
		if err := r.renew(ctx); err != nil {
			return nil, err
		}
		more, err := r.step(ctx, &t)
		if err != nil {
			if err := r.blame(ctx, t.report, err); err != nil {
				return nil, err
			}
			continue
		}
		if more {
			pending = append(pending, t)
		}
	}
	return pending, nil
}

// step runs one batch and tells whether another may follow in this round. Its rows count once they are
// committed. A batch that comes back short was the last: what it left is locked by somebody who is
// settling it.
func (r *round) step(ctx context.Context, t *task) (more bool, err error) {
	start := time.Now()
	defer func() { t.report.Duration += time.Since(start) }()
	limit := min(r.options.BatchSize, t.left)
	var done Counts
	err = r.candidate.fenced(ctx, r.term, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = t.batch(ctx, t.table.In(workqueue.Pgx(tx)), limit)
		return err
	})
	if err != nil {
		return false, err
	}
	t.report.add(done)
	t.left -= done.rows()
	if done.rows() < limit {
		return false, nil
	}
	if t.left == 0 {
		t.report.More = true
		return false, nil
	}
	return true, nil
}

// renew keeps the lease alive in a long round. The local clock decides only how early it does so.
func (r *round) renew(ctx context.Context) error {
	if time.Since(r.renewed) < r.candidate.lease/3 {
		return nil
	}
	now := time.Now()
	result, err := r.candidate.stand(ctx)
	if err != nil {
		return err
	}
	if !result.elected || result.term != r.term {
		return ErrNotLeader
	}
	r.renewed = now
	return nil
}

// blame records an error that concerns one table only, so that the others are still served, and returns
// any other.
func (r *round) blame(ctx context.Context, report *TableReport, err error) error {
	if ctx.Err() != nil || !concernsTable(err) {
		return err
	}
	report.Error = err.Error()
	r.errs = append(r.errs, fmt.Errorf("txwork: reaper: %s: %w", report.Table, err))
	return nil
}
