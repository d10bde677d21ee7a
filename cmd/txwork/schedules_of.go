package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// Timers and jobs have schedules in tables of their own. The commands serve both.
const (
	ofTimers = "timers"
	ofJobs   = "jobs"
)

// A scheduleSet is the schedules of timers, or those of jobs.
type scheduleSet struct {
	of       string // ofTimers or ofJobs
	tables   []*workqueue.Table
	list     func(context.Context, workqueue.Tx, periodic.Filter) ([]shownSchedule, error)
	get      func(context.Context, workqueue.Tx, string) (shownSchedule, error)
	pause    func(context.Context, workqueue.Tx, string) error
	resume   func(context.Context, workqueue.Tx, string) error
	remove   func(context.Context, workqueue.Tx, string) error
	trigger  func(context.Context, workqueue.Tx, string) (triggeredSchedule, error)
	backfill func(ctx context.Context, tx workqueue.Tx, name string, p period) (int, error)
	preview  func(ctx context.Context, tx workqueue.Tx, name string, p period) ([]periodic.Occurrence, error)
}

// A scheduleTable has the schedules of one of the domains, whose lists have elements of type I.
type scheduleTable[I any] interface {
	List(context.Context, workqueue.Tx, periodic.Filter) ([]I, error)
	Get(ctx context.Context, tx workqueue.Tx, name string) (I, error)
	Pause(ctx context.Context, tx workqueue.Tx, name string) error
	Resume(ctx context.Context, tx workqueue.Tx, name string) error
	Delete(ctx context.Context, tx workqueue.Tx, name string) error
	Backfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) (int, error)
	PreviewBackfill(ctx context.Context, tx workqueue.Tx, name string, from, to time.Time) ([]periodic.Occurrence,
		error)
}

// newScheduleSet returns a set without trigger, whose result is the domain's.
func newScheduleSet[I any](of string, s scheduleTable[I], show func(I) shownSchedule,
	tables ...*workqueue.Table) scheduleSet {
	return scheduleSet{
		of: of, tables: tables,
		list: func(ctx context.Context, tx workqueue.Tx, f periodic.Filter) ([]shownSchedule, error) {
			list, err := s.List(ctx, tx, f)
			return shownSchedules(list, show), err
		},
		get: func(ctx context.Context, tx workqueue.Tx, name string) (shownSchedule, error) {
			found, err := s.Get(ctx, tx, name)
			return show(found), err
		},
		pause: s.Pause, resume: s.Resume, remove: s.Delete,
		backfill: func(ctx context.Context, tx workqueue.Tx, name string, p period) (int, error) {
			return s.Backfill(ctx, tx, name, p.from.Time, p.to.Time)
		},
		preview: func(ctx context.Context, tx workqueue.Tx, name string, p period) ([]periodic.Occurrence, error) {
			return s.PreviewBackfill(ctx, tx, name, p.from.Time, p.to.Time)
		},
	}
}

func (d *database) timerSchedules() (scheduleSet, error) {
	t, err := timers.Open(timers.Options{Schema: d.Schema, Telemetry: d.app.telemetry()})
	if err != nil {
		return scheduleSet{}, usageError{err}
	}
	s := t.Schedules()
	set := newScheduleSet(ofTimers, s, newShownSchedule, t.Tables()...)
	set.trigger = func(ctx context.Context, tx workqueue.Tx, name string) (triggeredSchedule, error) {
		o, err := s.Trigger(ctx, tx, name)
		return triggeredSchedule{Of: ofTimers, Name: name, Key: o.Key}, err
	}
	return set, nil
}

// jobSchedules needs no kinds: all that a schedule's jobs are enqueued with is stored with it.
func (d *database) jobSchedules() (scheduleSet, error) {
	c, err := jobs.Open(jobs.Options{Schema: d.Schema, Telemetry: d.app.telemetry()})
	if err != nil {
		return scheduleSet{}, usageError{err}
	}
	s := c.Schedules()
	set := newScheduleSet(ofJobs, s, newShownJobSchedule, c.Tables()...)
	set.trigger = func(ctx context.Context, tx workqueue.Tx, name string) (triggeredSchedule, error) {
		o, err := s.Trigger(ctx, tx, name)
		return triggeredSchedule{Of: ofJobs, Name: name, ID: &o.ID, Duplicate: o.Duplicate}, err
	}
	return set, nil
}

func shownSchedules[T any](list []T, show func(T) shownSchedule) []shownSchedule {
	all := make([]shownSchedule, len(list))
	for i, one := range list {
		all[i] = show(one)
	}
	return all
}

// scheduleFlag adds the flag that says whose schedules are meant.
func scheduleFlag(flags *pflag.FlagSet, usage string) *string {
	return flags.String("of", "", "schedules of timers or of jobs "+usage)
}

// withSchedules connects, and opens the sets of schedules that are meant and that the schema has.
func (a *app) withSchedules(ctx context.Context, of string, do func(*database, []scheduleSet) error) error {
	if of != "" && of != ofTimers && of != ofJobs {
		return usagef("--of %q is unknown, want timers or jobs", of)
	}
	return a.withDatabase(ctx, func(d *database) error {
		known, err := d.TableNames(ctx)
		if err != nil {
			return err
		}
		var sets []scheduleSet
		var tables []*workqueue.Table
		for _, open := range []func() (scheduleSet, error){d.timerSchedules, d.jobSchedules} {
			s, err := open()
			if err != nil {
				return err
			}
			named := of == s.of
			// if the schema has neither, the error says how to create the first
			missing := !slices.Contains(known, s.of) && (s.of != ofTimers || slices.Contains(known, ofJobs))
			if of != "" && !named || !named && missing {
				continue
			}
			for _, table := range s.tables {
				if err := table.CheckVersion(ctx, d.Pool); err != nil {
					return err
				}
			}
			sets, tables = append(sets, s), append(tables, s.tables...)
		}
		return d.looking(ctx, func() error { return conclude(do(d, sets)) }, tables...)
	})
}

// changeSchedule calls do, in a transaction, for the schedule that the act is about. It tells the audit how many rows
// do has changed.
func (a *app) changeSchedule(ctx context.Context, verb, of string, about operate.AboutSchedule,
	do func(workqueue.Tx, scheduleSet) (rows int, err error)) error {
	return a.withSchedules(ctx, of, func(d *database, sets []scheduleSet) error {
		return d.Write(ctx, func(tx workqueue.Tx) error {
			set, _, err := findSchedule(ctx, tx, sets, about.Schedule)
			if err != nil {
				return err
			}
			rows, err := do(tx, set)
			if err != nil {
				return err
			}
			return d.Note(ctx, tx, operate.Act{Verb: verb, Target: set.of + "_schedule", About: about}, rows)
		})
	})
}

// findSchedule returns the schedule of that name, and of which set it is.
func findSchedule(ctx context.Context, tx workqueue.Tx, sets []scheduleSet, name string) (of scheduleSet,
	found shownSchedule, err error) {
	missing := true
	for _, s := range sets {
		one, getErr := s.get(ctx, tx, name)
		switch {
		case getErr == nil && !missing:
			return of, found, usagef("both timers and jobs have a schedule %q: say which by --of timers or --of jobs",
				name)
		case getErr == nil:
			of, found, missing = s, one, false
		case !errors.Is(getErr, workqueue.ErrNotFound):
			return of, found, getErr
		default:
			err = getErr
		}
	}
	if missing {
		return of, found, err
	}
	return of, found, nil
}

// after reads schedules in the order of their names, after that of the filter, until more than limit of them have one
// of the states. There are few schedules, so reading past others costs little.
func (s scheduleSet) after(ctx context.Context, tx workqueue.Tx, f periodic.Filter, states []string, limit int) (
	all []shownSchedule, err error) {
	f.Limit = periodic.MaxPage
	for {
		page, err := s.list(ctx, tx, f)
		if err != nil {
			return nil, err
		}
		for _, one := range page {
			if len(states) == 0 || slices.Contains(states, one.State) {
				all = append(all, one)
			}
		}
		if len(page) < f.Limit || len(all) > limit {
			return all, nil
		}
		f.After = page[len(page)-1].Name
	}
}

// listAll merges the pages of several sets. Schedules of one name are on one page, since --after names only the name.
func listAll(ctx context.Context, tx workqueue.Tx, sets []scheduleSet, f periodic.Filter, states []string, limit int) (
	list []shownSchedule, more bool, err error) {
	for _, s := range sets {
		page, err := s.after(ctx, tx, f, states, limit)
		if err != nil {
			return nil, false, err
		}
		list = append(list, page...)
	}
	slices.SortStableFunc(list, func(a, b shownSchedule) int { return strings.Compare(a.Name, b.Name) })
	end := min(limit, len(list))
	for end > 0 && end < len(list) && list[end].Name == list[end-1].Name {
		end++
	}
	return list[:end], end < len(list), nil
}

// A triggeredSchedule is what trigger prints.
type triggeredSchedule struct {
	Of        string     `json:"of"` // timers or jobs
	Name      string     `json:"name"`
	Key       string     `json:"key,omitempty"`       // key of the timer
	ID        *uuid.UUID `json:"id,omitempty"`        // id of the job
	Duplicate bool       `json:"duplicate,omitempty"` // the job of this id holds the unique key, so none was written
}

// text says what the trigger has written.
func (t triggeredSchedule) text() string {
	switch {
	case t.Duplicate:
		return "not triggered: job " + t.ID.String() + " holds its unique key"
	case t.ID != nil:
		return "triggered: job " + t.ID.String()
	}
	return "triggered: timer " + named(t.Key)
}
