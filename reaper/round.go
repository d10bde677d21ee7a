package reaper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// A round serves the tables that a reaper leads once.
type round struct {
	candidate candidate
	pool      connections
	options   Options
	terms     map[string]int64 // the terms of the tables that it serves
	renewed   time.Time
	errs      []error          // errors that concern one table each
	unable    map[string]error // by table: errors that another reaper may not meet
	lost      []string         // tables that another reaper leads by now
	complete  bool             // no error ended the round early
}

// run serves the tables in terms. The error says what kept it from serving all of them to the end. The report says what
// was done, with or without an error.
func (r *round) run(ctx context.Context, tables []*workqueue.Table, standings map[string]standing) (Report, error) {
	report := Report{Tables: make([]TableReport, len(tables))}
	var serves []*workqueue.Table
	var reports []*TableReport
	for i, table := range tables {
		s, t := standings[table.Name()], &report.Tables[i]
		t.Table, t.Leader, t.Term = table.Name(), s.Elected, s.Term
		if s.Hidden {
			t.Error = errHidden.Error()
		}
		if _, t.served = r.terms[t.Table]; t.served {
			serves, reports = append(serves, table), append(reports, t)
		}
	}
	start := time.Now()
	err := r.serve(ctx, serves, reports)
	r.complete = err == nil
	report.Duration = time.Since(start)
	for _, t := range report.Tables {
		report.More = report.More || t.More
	}
	return report, errors.Join(append(r.errs, err)...)
}

// serve runs one batch of each task in turn, until no task has anything left to do.
func (r *round) serve(ctx context.Context, tables []*workqueue.Table, reports []*TableReport) error {
	tasks, err := r.plan(ctx, tables, reports)
	for err == nil && len(tasks) > 0 {
		tasks, err = r.pass(ctx, tasks)
	}
	return err
}

// plan lists the tasks, expired leases before retention. It skips tables whose version does not fit this version of the
// library.
func (r *round) plan(ctx context.Context, tables []*workqueue.Table, reports []*TableReport) ([]task, error) {
	var urgent, rest []task
	for i, table := range tables {
		err := r.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return table.CheckVersion(ctx, conn) })
		if err != nil {
			if err := r.blame(ctx, reports[i], err); err != nil {
				return nil, err
			}
			reports[i].ends = true
			continue
		}
		tasks := r.options.tasks(table, reports[i])
		urgent = append(urgent, tasks[0])
		rest = append(rest, tasks[1:]...)
	}
	return append(urgent, rest...), nil
}

// pass runs one batch of each task and returns the tasks that have more to do.
func (r *round) pass(ctx context.Context, tasks []task) ([]task, error) {
	var pending []task
	for _, t := range tasks {
		if t.report.ends {
			continue // its other tasks would fail for the same reason
		}
		if err := r.renew(ctx); err != nil {
			return nil, err
		}
		if _, leads := r.terms[t.report.Table]; !leads {
			r.lose(t.report)
			continue
		}
		more, err := r.step(ctx, &t)
		if err != nil && t.apart != nil && mayBeRows(err) && !endsTable(err) && ctx.Err() == nil {
			pending = append(pending, t.apart...)
			continue
		}
		if err != nil {
			if err := r.blame(ctx, t.report, fmt.Errorf("%s: %w", t.kind, err)); err != nil {
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

// step runs one batch and reports whether another may follow in this round. Its rows are counted after the commit. A
// batch that is not full is the last: the rows that it left are locked by transactions that are settling them.
func (r *round) step(ctx context.Context, t *task) (more bool, err error) {
	defer contained(&err)
	start := time.Now()
	defer func() { t.report.Duration += time.Since(start) }()
	limit := min(r.options.BatchSize, t.left)
	var done Counts
	var skipped []workqueue.Skipped
	if !t.careful {
		done, err = r.batch(ctx, t, limit)
		t.careful = err != nil && t.each != nil && mayBeRows(err)
	}
	if t.careful {
		limit = min(limit, eachBatch)
		first := err
		if done, skipped, err = r.batchOfEach(ctx, t, limit); err != nil && first != nil {
			err = first // which says more: a part has less time
		}
	}
	if err != nil {
		return false, err
	}
	t.report.add(done)
	t.skip(skipped)
	t.left -= done.rows()
	switch {
	case done.rows()+len(skipped) < limit:
		return false, nil
	case t.left == 0:
		t.report.More = true
		return false, nil
	case len(t.skips) >= workqueue.MaxSkipped:
		return false, errTooManySkipped
	}
	return true, nil
}

func (r *round) batch(ctx context.Context, t *task, limit int) (done Counts, err error) {
	fenced := r.candidate.fenced
	if t.sweeps {
		fenced = r.candidate.fencedLast
	}
	err = fenced(ctx, t.report.Table, t.report.Term, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = t.batch(ctx, t.table.In(workqueue.Pgx(tx)), limit)
		return err
	})
	return done, err
}

func (r *round) batchOfEach(ctx context.Context, t *task, limit int) (done Counts, skipped []workqueue.Skipped,
	err error) {
	err = r.candidate.fenced(ctx, t.report.Table, t.report.Term, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, skipped, err = t.each(ctx, t.table.In(workqueue.Pgx(tx)), limit, t.skips)
		return err
	})
	return done, skipped, err
}

// renew renews the leases during a long round, and drops the terms that are lost. It uses the local clock only to
// decide when to renew.
func (r *round) renew(ctx context.Context) error {
	if time.Since(r.renewed) < r.candidate.lease/3 {
		return nil
	}
	now := time.Now()
	standings, err := r.candidate.stand(ctx, slices.Sorted(maps.Keys(r.terms)))
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.terms, func(table string, term int64) bool {
		return !standings[table].Elected || standings[table].Term != term
	})
	r.renewed = now
	return nil
}

// blame records an error that concerns one table only, so that the other tables are still served. It returns any other
// error.
func (r *round) blame(ctx context.Context, report *TableReport, err error) error {
	switch {
	case ctx.Err() != nil || !concernsTable(err):
		return err
	case errors.Is(err, ErrNotLeader):
		r.lose(report)
	default:
		report.say(err.Error())
		report.ends = report.ends || endsTable(err)
		if unable(err) {
			r.unable[report.Table] = err
		}
		r.errs = append(r.errs, fmt.Errorf("txwork: reaper: %s: %w", report.Table, err))
	}
	return nil
}

// lose ends the work on a table that another reaper leads.
func (r *round) lose(report *TableReport) {
	delete(r.terms, report.Table)
	report.say(ErrNotLeader.Error())
	report.ends = true
	r.lost = append(r.lost, report.Table)
}
