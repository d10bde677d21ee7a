package periodic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// maxVanished is how often in a row a schedule may be deleted and created again while Put tries to change it.
const maxVanished = 10

// Put creates schedules and changes existing ones, by name. It compares what they mean and not their texts, so a
// program may put its schedules whenever it starts.
//
// A change concerns what is due after it. What is due already and not yet written is written by the definition that it
// was due under, with the template of the new one. A new expression or zone is planned anew from now; an interval
// counts from the time at which its schedule was created, so it keeps its phase. Any other change keeps the next
// occurrence. A schedule whose stored [Schedule].Version is higher is left alone, which is logged. A paused schedule
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
	anchor := now.Truncate(time.Second)
	next, err := d.first(&anchor, now)
	if err != nil {
		return false, err
	}
	var inserted []workqueue.Enqueued
	err = p.bounded(ctx, tx, &LockedError{Schedule: d.Name}, func() (err error) {
		inserted, err = p.table.Insert(ctx, tx, workqueue.NewRow{DueAt: p.dueAt(d.Rule, next),
			Values: workqueue.ValuesOf(recordOf(d.Schedule, next, anchor), (*record).columns)})
		return err
	})
	return err == nil && !inserted[0].Duplicate, err
}

func (p *Plan) change(ctx context.Context, tx workqueue.Tx, old row, d definition) error {
	if d.Version < old.Version {
		cmp.Or(p.options.Telemetry.Logger, slog.Default()).InfoContext(ctx, "schedule keeps its newer definition",
			"table", p.table.Name(), "schedule", d.Name, "version", old.Version, "put", d.Version)
		return nil
	}
	next, owed, dropped, err := old.become(d)
	if err != nil {
		return err
	}
	stored, err := owed.stored()
	if err != nil {
		return err
	}
	r := recordOf(d.Schedule, nil, nil)
	return p.table.In(tx).Query(ctx, discard, p.statements.put, old.ID, r.expr, r.zone, r.misfire, r.cap, r.grace,
		r.overlap, r.jitter, r.template, next, p.dueAt(d.Rule, next).Add(-old.ahead), stored, dropped,
		old.origin(), d.Version)
}

// become returns what is next under a new definition, what is owed under those before it, and how many occurrences that
// were due are dropped by their own rule.
func (r row) become(d definition) (next time.Time, owed debts, dropped int, err error) {
	plans := r.NextAt != nil && r.Status < workqueue.Done
	old, err := schedule.Parse(r.Expr, r.Zone) // an error means that nothing is known to be due
	same := plans && err == nil && old.Equal(d.parsed)
	if same {
		next = *r.NextAt
	}
	if plans && !r.Paused {
		owed = r.owed
		if err == nil && !r.NextAt.After(r.now) && !(same && misfires(r.Rule) == misfires(d.Rule)) {
			due, missed, following, ok := r.Rule.Due(old, *r.NextAt, r.now)
			owed, dropped = owed.with(r.Rule, due, r.now)
			next, dropped, same = following, dropped+missed, same && ok
		}
	}
	if !same {
		origin := r.origin()
		next, err = d.first(&origin, r.now)
		return next, owed, dropped, err
	}
	return next, owed, dropped, nil
}

// misfires is the part of a rule that decides about what is late.
func misfires(r schedule.Rule) schedule.Rule {
	return schedule.Rule{Misfire: r.Misfire, Cap: r.Cap, Grace: r.Grace}
}

// origin is a time from which every interval of the schedule counts.
func (r row) origin() time.Time {
	if r.anchor != nil {
		return *r.anchor
	}
	return r.phase()
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
