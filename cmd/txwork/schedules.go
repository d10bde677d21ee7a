package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/zones"
	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/schedule"
	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

func newSchedulesCommand(a *app) *cobra.Command {
	return newGroup("schedules", "Schedules that set timers, or enqueue jobs, again and again",
		newSchedulesNextCommand(a),
		newSchedulesPutCommand(a),
		newSchedulesListCommand(a),
		newScheduleChangeCommand(a, "pause", "Stop a schedule until it is resumed", "paused",
			func(s scheduleSet) func(context.Context, workqueue.Tx, string) error { return s.pause }),
		newScheduleChangeCommand(a, "resume", "Let a paused schedule go on from now", "resumed",
			func(s scheduleSet) func(context.Context, workqueue.Tx, string) error { return s.resume }),
		newScheduleChangeCommand(a, "delete", "Remove a schedule", "deleted",
			func(s scheduleSet) func(context.Context, workqueue.Tx, string) error { return s.remove }),
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
	cmd := newCommand("put NAME EXPR --topic TOPIC", "Create or change a schedule of timers", cobra.ExactArgs(2))
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
	err := d.Write(ctx, func(tx workqueue.Tx) error {
		err := s.Put(ctx, tx, put)
		if err == nil {
			made, err = s.Get(ctx, tx, put.Name)
		}
		return err
	})
	if err == nil && made.Version > put.Version {
		err = fmt.Errorf("schedule %s has version %d, and was not changed: --version %d or higher replaces it",
			named(made.Name), made.Version, made.Version)
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
	_, err = fmt.Fprintf(a.stdout, "schedule %s %s\n", named(made.Name), next)
	return err
}

// inZone formats a time by the clocks of a zone, and in UTC.
func inZone(t time.Time, zone string) string {
	if location, err := zones.Load(zone); err == nil {
		t = t.In(location)
	}
	return fmt.Sprintf("%s (%s)", t.Format("2006-01-02 15:04:05 -07:00"), t.UTC().Format("2006-01-02 15:04:05Z"))
}

// A shownSchedule is a schedule without its payload.
type shownSchedule struct {
	Of           string     `json:"of"` // timers or jobs
	Name         string     `json:"name"`
	Expr         string     `json:"expr"`                  // the cron expression
	Zone         string     `json:"zone"`                  // IANA time zone
	Topic        string     `json:"topic,omitempty"`       // topic of its timers
	Kind         string     `json:"kind,omitempty"`        // kind of its jobs
	Queue        string     `json:"queue,omitempty"`       // queue of its jobs
	State        string     `json:"state"`                 // as --status selects it: active, failing, paused or ended
	NextAt       *time.Time `json:"next_at,omitempty"`     // next occurrence
	LastAt       *time.Time `json:"last_at,omitempty"`     // last occurrence that became a timer or job
	BufferedAt   *time.Time `json:"buffered_at,omitempty"` // an occurrence that waits for the previous one to end
	Owed         int        `json:"owed,omitempty"`        // occurrences of earlier definitions that are still to be written
	Fired        int64      `json:"fired"`                 // number of occurrences that became timers or jobs
	Skipped      int64      `json:"skipped"`               // number of occurrences skipped by its rules
	Misfire      string     `json:"misfire"`               // rule for missed occurrences: skip, once or all
	Cap          int        `json:"cap"`                   // how many missed occurrences are made up for at most
	Grace        float64    `json:"grace_seconds"`         // how late an occurrence may be without counting as missed
	Overlap      string     `json:"overlap"`               // rule while the previous one is live: skip, buffer or allow
	Jitter       float64    `json:"jitter_seconds"`        // by how much an occurrence may be delayed
	MaxAttempts  int        `json:"max_attempts"`          // maximum number of attempts of its timers or jobs
	Version      int64      `json:"version"`               // version of the definition
	PayloadBytes int        `json:"payload_bytes"`         // size of the payload of its timers, or args of its jobs
	Failures     int        `json:"failures,omitempty"`    // how many times in a row they could not be written
	LastError    string     `json:"last_error,omitempty"`  // why it failed
	CreatedAt    time.Time  `json:"created_at"`
}

func newShownSchedule(i timers.ScheduleInfo) shownSchedule {
	return shownSchedule{
		Of: ofTimers, Name: i.Name, Expr: i.Expr, Zone: i.Zone, Topic: i.Topic,
		State:  scheduleState(i.Status, i.Paused, i.Failures),
		NextAt: operate.UTC(i.NextAt), LastAt: operate.UTC(i.LastAt), BufferedAt: operate.UTC(i.BufferedAt),
		Owed:  i.Owed,
		Fired: i.Fired, Skipped: i.Skipped, Version: i.Version,
		Misfire: i.Rule.Misfire.String(), Cap: i.Rule.Cap, Grace: i.Rule.Grace.Seconds(),
		Overlap: i.Rule.Overlap.String(), Jitter: i.Rule.Jitter.Seconds(),
		MaxAttempts: i.MaxAttempts, PayloadBytes: len(i.Payload), Failures: i.Failures, LastError: i.LastError,
		CreatedAt: i.CreatedAt.UTC(),
	}
}

func newShownJobSchedule(i jobs.ScheduleInfo) shownSchedule {
	return shownSchedule{
		Of: ofJobs, Name: i.Name, Expr: i.Expr, Zone: i.Zone, Kind: i.Kind, Queue: i.Queue,
		State:  scheduleState(i.Status, i.Paused, i.Failures),
		NextAt: operate.UTC(i.NextAt), LastAt: operate.UTC(i.LastAt), BufferedAt: operate.UTC(i.BufferedAt),
		Owed:  i.Owed,
		Fired: i.Fired, Skipped: i.Skipped, Version: i.Version,
		Misfire: i.Rule.Misfire.String(), Cap: i.Rule.Cap, Grace: i.Rule.Grace.Seconds(),
		Overlap: i.Rule.Overlap.String(), Jitter: i.Rule.Jitter.Seconds(),
		MaxAttempts: i.MaxAttempts, PayloadBytes: len(i.Args), Failures: i.Failures, LastError: i.LastError,
		CreatedAt: i.CreatedAt.UTC(),
	}
}

// scheduleStates are the values of --status.
var scheduleStates = []string{"active", "failing", "paused", "ended"}

func scheduleState(s workqueue.Status, paused bool, failures int) string {
	switch {
	case s >= workqueue.Done:
		return "ended"
	case paused:
		return "paused"
	case failures > 0:
		return "failing"
	}
	return "active"
}

func newSchedulesListCommand(a *app) *cobra.Command {
	var f periodic.Filter
	var states []string
	cmd := newCommand("list [--prefix PREFIX]", "List schedules by name", noArguments)
	flags := cmd.Flags()
	flags.StringVar(&f.Prefix, "prefix", "", "only names that begin so")
	flags.StringSliceVar(&states, "status", nil,
		"only schedules in this `state`: "+strings.Join(scheduleStates, ", ")+"; repeat for more")
	of := scheduleFlag(flags, "(default: both)")
	flags.IntVar(&f.Limit, "limit", defaultListLimit, "schedules of a page")
	flags.StringVar(&f.After, "after", "", "continue after this `name`, the last of the previous page")
	asJSON := jsonFlag(cmd, schedulesPage{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLimit(f.Limit); err != nil {
			return err
		}
		for _, state := range states {
			if !slices.Contains(scheduleStates, state) {
				return usagef("--status %q is unknown, want one of %s", state, strings.Join(scheduleStates, ", "))
			}
		}
		return a.withSchedules(cmd.Context(), *of, func(d *database, sets []scheduleSet) error {
			p := schedulesPage{Schedules: []shownSchedule{}, Partial: d.Partial}
			err := d.readTx(cmd.Context(), func(tx workqueue.Tx, _ time.Time) error {
				list, more, err := listAll(cmd.Context(), tx, sets, f, states, f.Limit)
				if p.Schedules = append(p.Schedules, list...); more {
					p.Next = list[len(list)-1].Name
				}
				return err
			})
			switch {
			case err != nil:
				return err
			case *asJSON:
				return a.printJSON(p)
			}
			return a.printSchedules(p)
		})
	}
	return cmd
}

// A schedulesPage is what list prints.
type schedulesPage struct {
	Schedules []shownSchedule `json:"schedules"`         // in the order of their names
	Next      string          `json:"next,omitempty"`    // for --after; missing on the last page
	Partial   bool            `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

func (a *app) printSchedules(p schedulesPage) error {
	g := newGrid(a.stdout, "NAME", "OF", "EXPR", "ZONE", "TOPIC OR KIND", "STATUS", "NEXT", "FIRED", "SKIPPED",
		"LAST ERROR")
	for _, s := range p.Schedules {
		next := "-"
		if s.NextAt != nil {
			next = inZone(*s.NextAt, s.Zone)
		}
		g.add(named(s.Name), s.Of, cell(s.Expr, cellWidth), cell(s.Zone, cellWidth), namedOrDash(s.Topic+s.Kind),
			s.State, next, fmt.Sprint(s.Fired), fmt.Sprint(s.Skipped), dashed(s.LastError))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}
