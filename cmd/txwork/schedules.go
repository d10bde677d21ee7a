package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func newSchedulesCommand(a *app) *cobra.Command {
	return newGroup("schedules", "Schedules that set timers again and again",
		newSchedulesNextCommand(a),
		newSchedulesPutCommand(a),
		newSchedulesListCommand(a),
		newScheduleChangeCommand(a, "pause", "Stop a schedule until it is resumed", "paused",
			(*timers.Schedules).Pause),
		newScheduleChangeCommand(a, "resume", "Let a paused schedule go on from now", "resumed",
			(*timers.Schedules).Resume),
		newScheduleChangeCommand(a, "delete", "Remove a schedule", "deleted", (*timers.Schedules).Delete),
		newSchedulesTriggerCommand(a),
		newSchedulesBackfillCommand(a),
	)
}

// putOptions are the flags of put.
type putOptions struct {
	content
	zone             string
	misfire, overlap string
	rule             schedule.Rule
	version          int64
	json             bool
}

func newSchedulesPutCommand(a *app) *cobra.Command {
	var o putOptions
	cmd := newCommand("put NAME EXPR --topic TOPIC", "Create or change a schedule", cobra.ExactArgs(2))
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.zone, "zone", "UTC", "IANA zone in which EXPR is read")
	flags.StringVar(&o.misfire, "misfire", "once", "what becomes of times that were missed: once, skip or all")
	flags.IntVar(&o.rule.Cap, "cap", schedule.DefaultCap, "with --misfire all, fire so many at most, the newest")
	flags.DurationVar(&o.rule.Grace, "grace", schedule.DefaultGrace, "a time that is no later than this is not missed")
	flags.StringVar(&o.overlap, "overlap", "allow",
		"what becomes of a time while an earlier timer has not ended: allow, skip or buffer")
	flags.DurationVar(&o.rule.Jitter, "jitter", 0, "delay each firing by up to this, to spread load")
	flags.Int64Var(&o.version, "version", 0, "version of the definition; a higher one is not replaced")
	jsonVar(flags, &o.json, jsonUsage, shownSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(args[1]); err != nil {
			return err
		}
		payload, err := o.payload(a)
		if err != nil {
			return err
		}
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.putSchedule(cmd.Context(), d, t.Schedules(), o.json, timers.Schedule{
				Name: args[0], Expr: args[1], Zone: o.zone, Rule: o.rule, Topic: o.topic, Payload: payload,
				MaxAttempts: o.maxAttempts, Version: o.version,
			})
		})
	}
	return cmd
}

// check refuses invalid flags as far as that needs no database.
func (o *putOptions) check(expr string) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if o.rule.Misfire, err = schedule.ParseMisfire(o.misfire); err != nil {
		return usagef("--misfire %q is unknown, want once, skip or all", o.misfire)
	}
	if o.rule.Overlap, err = schedule.ParseOverlap(o.overlap); err != nil {
		return usagef("--overlap %q is unknown, want allow, skip or buffer", o.overlap)
	}
	if err := o.rule.Check(); err != nil {
		return usageError{err}
	}
	if o.version < 0 {
		return usagef("--version is %d, it cannot be negative", o.version)
	}
	if _, err := schedule.Parse(expr, o.zone); err != nil {
		return usageError{err}
	}
	return nil
}

func (a *app) putSchedule(ctx context.Context, d *database, s *timers.Schedules, asJSON bool,
	put timers.Schedule) error {
	var made timers.ScheduleInfo
	err := d.write(ctx, func(tx workqueue.Tx) error {
		err := s.Put(ctx, tx, put)
		if err == nil {
			made, err = s.Get(ctx, tx, put.Name)
		}
		return err
	})
	if err == nil && made.Version > put.Version {
		err = fmt.Errorf("schedule %s has version %d, and was not changed: --version %d or higher replaces it",
			harmless(made.Name), made.Version, made.Version)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(newShownSchedule(made))
	}
	next := "is paused"
	if made.NextAt != nil {
		next = "is next due " + inZone(*made.NextAt, made.Zone)
	}
	_, err = fmt.Fprintf(a.stdout, "schedule %s %s\n", harmless(made.Name), next)
	return err
}

// inZone formats a time by the clocks of a zone, and in UTC.
func inZone(t time.Time, zone string) string {
	if location, err := time.LoadLocation(zone); err == nil {
		t = t.In(location)
	}
	return fmt.Sprintf("%s (%s)", t.Format("2006-01-02 15:04:05 -07:00"), t.UTC().Format("2006-01-02 15:04:05Z"))
}

// A shownSchedule is a schedule without its payload.
type shownSchedule struct {
	Name         string     `json:"name"`
	Expr         string     `json:"expr"`                  // the cron expression
	Zone         string     `json:"zone"`                  // IANA time zone
	Topic        string     `json:"topic"`                 // topic of its timers
	State        string     `json:"state"`                 // active, failing, paused or ended
	NextAt       *time.Time `json:"next_at,omitempty"`     // next occurrence
	LastAt       *time.Time `json:"last_at,omitempty"`     // last occurrence that became a timer
	BufferedAt   *time.Time `json:"buffered_at,omitempty"` // an occurrence that waits for the previous timer to end
	Owed         int        `json:"owed,omitempty"`        // occurrences of earlier definitions that are still to be written
	Fired        int64      `json:"fired"`                 // number of occurrences that became timers
	Skipped      int64      `json:"skipped"`               // number of occurrences skipped by its rules
	Misfire      string     `json:"misfire"`               // rule for missed occurrences: skip, once or all
	Cap          int        `json:"cap"`                   // how many missed occurrences are made up for at most
	Grace        float64    `json:"grace_seconds"`         // how late an occurrence may be without counting as missed
	Overlap      string     `json:"overlap"`               // rule while the previous timer is live: skip, buffer or allow
	Jitter       float64    `json:"jitter_seconds"`        // by how much an occurrence may be delayed
	MaxAttempts  int        `json:"max_attempts"`          // maximum number of attempts of its timers
	Version      int64      `json:"version"`               // version of the definition
	PayloadBytes int        `json:"payload_bytes"`         // size of the payload of its timers
	Failures     int        `json:"failures,omitempty"`    // how many times in a row its timers could not be written
	LastError    string     `json:"last_error,omitempty"`  // why it failed
	CreatedAt    time.Time  `json:"created_at"`
}

func newShownSchedule(i timers.ScheduleInfo) shownSchedule {
	state := "active"
	switch {
	case i.Status >= workqueue.Done:
		state = "ended"
	case i.Paused:
		state = "paused"
	case i.Failures > 0:
		state = "failing"
	}
	return shownSchedule{
		Name: i.Name, Expr: i.Expr, Zone: i.Zone, Topic: i.Topic, State: state,
		NextAt: utc(i.NextAt), LastAt: utc(i.LastAt), BufferedAt: utc(i.BufferedAt), Owed: i.Owed,
		Fired: i.Fired, Skipped: i.Skipped, Version: i.Version,
		Misfire: i.Rule.Misfire.String(), Cap: i.Rule.Cap, Grace: i.Rule.Grace.Seconds(),
		Overlap: i.Rule.Overlap.String(), Jitter: i.Rule.Jitter.Seconds(),
		MaxAttempts: i.MaxAttempts, PayloadBytes: len(i.Payload), Failures: i.Failures, LastError: i.LastError,
		CreatedAt: i.CreatedAt.UTC(),
	}
}

func newSchedulesListCommand(a *app) *cobra.Command {
	var f periodic.Filter
	cmd := newCommand("list [--prefix PREFIX]", "List schedules by name", cobra.NoArgs)
	flags := cmd.Flags()
	flags.StringVar(&f.Prefix, "prefix", "", "only names that begin so")
	flags.IntVar(&f.Limit, "limit", defaultListLimit, "schedules of a page")
	flags.StringVar(&f.After, "after", "", "continue after this `name`")
	asJSON := jsonFlag(cmd, schedulesPage{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 || f.Limit >= periodic.MaxPage {
			return usagef("--limit is %d, it must be between 1 and %d", f.Limit, periodic.MaxPage-1)
		}
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.listSchedules(cmd.Context(), d, t.Schedules(), f, *asJSON)
		})
	}
	return cmd
}

// A schedulesPage is what list prints.
type schedulesPage struct {
	Schedules []shownSchedule `json:"schedules"`      // in the order of their names
	Next      string          `json:"next,omitempty"` // for --after; missing on the last page
}

func (a *app) listSchedules(ctx context.Context, d *database, s *timers.Schedules, f periodic.Filter,
	asJSON bool) error {
	p := schedulesPage{Schedules: []shownSchedule{}}
	limit := f.Limit
	err := d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
		f.Limit++ // one more row than is shown reveals whether there is a next page
		list, err := s.List(ctx, tx, f)
		for _, i := range list[:min(len(list), limit)] {
			p.Schedules = append(p.Schedules, newShownSchedule(i))
		}
		if len(list) > limit {
			p.Next = list[limit-1].Name
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(p)
	}
	return a.printSchedules(p)
}

func (a *app) printSchedules(p schedulesPage) error {
	g := newGrid(a.stdout, "NAME", "EXPR", "ZONE", "TOPIC", "STATE", "NEXT", "FIRED", "SKIPPED", "LAST ERROR")
	for _, s := range p.Schedules {
		next := "-"
		if s.NextAt != nil {
			next = inZone(*s.NextAt, s.Zone)
		}
		g.add(cell(s.Name, cellWidth), cell(s.Expr, cellWidth), cell(s.Zone, cellWidth), cell(s.Topic, cellWidth),
			s.State, next, fmt.Sprint(s.Fired), fmt.Sprint(s.Skipped), dashed(s.LastError))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore("--after", p.Next)
}
