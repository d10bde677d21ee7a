package periodic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
)

// maxVanished is how often in a row a schedule may be deleted and created again while Put tries to change it.
const maxVanished = 10

// Put creates schedules and changes existing ones, by name. A new expression or zone is planned anew from now. Any
// other change keeps the next occurrence, so a program may put its schedules whenever it starts. A paused schedule
// stays paused. A schedule that has ended, or that has failed for good, begins again.
//
// Schedules are validated before the first one is written. If one is refused, such as a schedule that is never due
// again, the error is a [*workqueue.InvalidError] that names it.
func (p *Plan) Put(ctx context.Context, tx workqueue.Tx, schedules ...Schedule) error {
	parsed := make([]definition, len(schedules))
	for i, s := range schedules {
		d, err := p.define(s)
		if err != nil {
			return err
		}
		parsed[i] = d
	}
	// By name, so that concurrent calls lock in the same order. If several have one name, the last one wins.
	slices.SortStableFunc(parsed, func(a, b definition) int { return cmp.Compare(a.Name, b.Name) })
	for _, d := range parsed {
		if err := p.put(ctx, tx, d); err != nil {
			return err
		}
	}
	return nil
}

// A definition is a schedule with its expression parsed.
type definition struct {
	Schedule
	parsed *schedule.Schedule
}

// define validates a schedule and normalizes its expression and zone, as the table stores them.
func (p *Plan) define(s Schedule) (definition, error) {
	parsed, err := p.check(s)
	if err != nil {
		return definition{}, err
	}
	if s.Rule.Overlap != schedule.OverlapAllow && p.options.Live == nil {
		return definition{}, validate.Errorf("overlap",
			"of schedule %q is %v, which needs Options.Live to count its running occurrences", s.Name, s.Rule.Overlap)
	}
	s.Expr, s.Zone = parsed.String(), parsed.Zone()
	return definition{s, parsed}, nil
}

func (p *Plan) put(ctx context.Context, tx workqueue.Tx, d definition) error {
	for range maxVanished {
		old, err := p.find(ctx, tx, d.Name)
		switch {
		case err == nil:
			return p.change(ctx, tx, old, d)
		case !errors.Is(err, workqueue.ErrNotFound):
			return err
		}
		if created, err := p.create(ctx, tx, d); created || err != nil {
			return err
		}
	}
	return fmt.Errorf("txwork: schedule %q is there when it is to be created, and is not when it is to be changed",
		d.Name)
}

// create reports false if another transaction has created the schedule first.
func (p *Plan) create(ctx context.Context, tx workqueue.Tx, d definition) (bool, error) {
	now, err := p.clock(ctx, tx)
	if err != nil {
		return false, err
	}
	next, err := d.first(nil, now)
	if err != nil {
		return false, err
	}
	var inserted []workqueue.Enqueued
	err = p.bounded(ctx, tx, &LockedError{Schedule: d.Name}, func() (err error) {
		inserted, err = p.table.Insert(ctx, tx, workqueue.NewRow{DueAt: p.dueAt(d.Rule, next),
			Values: values(d.Schedule, next)})
		return err
	})
	return err == nil && !inserted[0].Duplicate, err
}

func (p *Plan) change(ctx context.Context, tx workqueue.Tx, old row, d definition) (err error) {
	var next time.Time
	if old.NextAt != nil && old.Expr == d.Expr && old.Zone == d.Zone && old.Status < workqueue.Done {
		next = *old.NextAt
	} else if next, err = d.first(nil, old.now); err != nil {
		return err
	}
	v := values(d.Schedule, nil)
	return p.table.In(tx).Query(ctx, discard, p.statements.put, old.ID, v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8],
		next, p.dueAt(d.Rule, next).Add(-old.ahead))
}

func (d definition) first(anchor *time.Time, now time.Time) (time.Time, error) {
	next, ok := first(d.parsed, anchor, now)
	if !ok {
		return next, validate.Errorf(fmt.Sprintf("schedule %q", d.Name), "is never due after %s",
			now.UTC().Format(time.RFC3339))
	}
	return next, nil
}

// dueAt is when a scheduler has to look at a schedule.
func (p *Plan) dueAt(r schedule.Rule, next time.Time) time.Time { return next.Add(-p.lead(r)) }

// lead is zero if occurrences must not overlap, because whether they do is known only at the nominal time.
func (p *Plan) lead(r schedule.Rule) time.Duration {
	if r.Overlap != schedule.OverlapAllow {
		return 0
	}
	return p.options.Lead
}

// clock reads the database's clock.
func (p *Plan) clock(ctx context.Context, tx workqueue.Tx) (now time.Time, err error) {
	err = p.table.In(tx).Query(ctx, func(scan func(...any) error) error { return scan(&now) },
		"SELECT pg_catalog.clock_timestamp()")
	return now, err
}

// discard scans no columns of a row.
func discard(func(...any) error) error { return nil }
