package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/zones"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/periodic"
)

// whichUsage ends the usage of --of for commands that change one schedule.
const whichUsage = "(default: whichever has one of that name)"

// newScheduleChangeCommand makes a command that changes one schedule.
func newScheduleChangeCommand(a *app, verb, short, done string,
	change func(scheduleSet) func(context.Context, workqueue.Tx, string) error) *cobra.Command {
	cmd := newCommand(verb+" NAME", short, cobra.ExactArgs(1))
	of := scheduleFlag(cmd.Flags(), whichUsage)
	asJSON := jsonFlag(cmd, changedSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c := cmd.Context(), changedSchedule{Name: args[0], Paused: done == "paused", Resumed: done == "resumed",
			Deleted: done == "deleted"}
		about := operate.AboutSchedule{Schedule: c.Name}
		err := a.changeSchedule(ctx, verb, *of, about, func(tx workqueue.Tx, s scheduleSet) (int, error) {
			c.Of = s.of
			return 1, change(s)(ctx, tx, c.Name)
		})
		if err != nil {
			return err
		}
		return a.reportSchedule(c.Name, *asJSON, c, done)
	}
	return cmd
}

// A changedSchedule is what pause, resume and delete print.
type changedSchedule struct {
	Of      string `json:"of"` // timers or jobs
	Name    string `json:"name"`
	Paused  bool   `json:"paused,omitempty"`  // set by pause
	Resumed bool   `json:"resumed,omitempty"` // set by resume
	Deleted bool   `json:"deleted,omitempty"` // set by delete
}

// A backfilledSchedule is what backfill prints.
type backfilledSchedule struct {
	Of      string              `json:"of"` // timers or jobs
	Name    string              `json:"name"`
	Set     int                 `json:"set"`               // number of timers or jobs that were written, or would be
	DryRun  bool                `json:"dry_run"`           // nothing was written: these would be
	Zone    string              `json:"zone,omitempty"`    // with --dry-run: the zone of its times
	Times   []plannedOccurrence `json:"times,omitempty"`   // with --dry-run: the occurrences of the period
	Partial bool                `json:"partial,omitempty"` // row-level security hides rows, so more may exist
}

// A plannedOccurrence is one of a period that has passed.
type plannedOccurrence struct {
	occurrence
	Exists bool `json:"exists"` // its timer or job exists, and is not written again
}

// reportSchedule says what was done to a schedule.
func (a *app) reportSchedule(name string, asJSON bool, form any, done string) error {
	if asJSON {
		return a.printJSON(form)
	}
	_, err := fmt.Fprintf(a.stdout, "schedule %s %s\n", named(name), done)
	return err
}

func newSchedulesTriggerCommand(a *app) *cobra.Command {
	cmd := newCommand("trigger NAME", "Write a schedule's timer or job now, in addition to its plan",
		cobra.ExactArgs(1))
	of := scheduleFlag(cmd.Flags(), whichUsage)
	asJSON := jsonFlag(cmd, triggeredSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, name := cmd.Context(), args[0]
		var written triggeredSchedule
		about := operate.AboutSchedule{Schedule: name}
		err := a.changeSchedule(ctx, "trigger", *of, about, func(tx workqueue.Tx, s scheduleSet) (n int, err error) {
			written, err = s.trigger(ctx, tx, name)
			return 1, err
		})
		if err != nil {
			return err
		}
		return a.reportSchedule(name, *asJSON, written, written.text())
	}
	return cmd
}

// A period is the flags --from and --to.
type period struct{ from, to moment }

func newSchedulesBackfillCommand(a *app) *cobra.Command {
	var p period
	var dryRun bool
	var zone string
	cmd := newCommand("backfill NAME --from TIME --to TIME",
		"Write the timers or jobs of a schedule for a period in the past", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.Var(&p.from, "from", "the earliest time, as RFC 3339 has it")
	flags.Var(&p.to, "to", "the latest time, as RFC 3339 has it")
	flags.BoolVar(&dryRun, "dry-run", false, "only show the times, and which of them have a timer or job")
	flags.StringVar(&zone, "zone", "", "with --dry-run, show the times in this IANA zone (default: the schedule's)")
	requiredFlags(cmd, "from", "to")
	of := scheduleFlag(flags, whichUsage)
	asJSON := jsonFlag(cmd, backfilledSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.to.Before(p.from.Time) {
			return usagef("--to %s is before --from %s", p.to.Format(time.RFC3339), p.from.Format(time.RFC3339))
		}
		b := backfilledSchedule{Name: args[0], DryRun: dryRun, Zone: zone}
		if dryRun {
			return a.previewBackfill(cmd.Context(), *of, p, b, *asJSON)
		}
		return a.backfill(cmd.Context(), *of, p, b, *asJSON)
	}
	return cmd
}

func (a *app) backfill(ctx context.Context, of string, p period, b backfilledSchedule, asJSON bool) error {
	if b.Zone != "" {
		return usagef("--zone needs --dry-run")
	}
	about := operate.AboutSchedule{Schedule: b.Name, From: p.from.UTC(), To: p.to.UTC()}
	err := a.changeSchedule(ctx, "backfill", of, about, func(tx workqueue.Tx, s scheduleSet) (n int, err error) {
		b.Of = s.of
		b.Set, err = s.backfill(ctx, tx, b.Name, p)
		return b.Set, err
	})
	if err != nil {
		return err
	}
	return a.reportSchedule(b.Name, asJSON, b, fmt.Sprintf("backfilled: %s set", plural(b.Set, b.noun())))
}

func (b backfilledSchedule) noun() string { return strings.TrimSuffix(b.Of, "s") }

// previewBackfill reads what backfill would write.
func (a *app) previewBackfill(ctx context.Context, of string, p period, b backfilledSchedule, asJSON bool) error {
	if _, err := zones.Load(b.Zone); err != nil {
		return usagef("--zone %q is no zone that this machine knows: want one such as Europe/Zagreb", b.Zone)
	}
	err := a.withSchedules(ctx, of, func(d *database, sets []scheduleSet) error {
		b.Partial = d.Partial
		return d.readTx(ctx, func(tx workqueue.Tx, _ time.Time) error {
			set, found, err := findSchedule(ctx, tx, sets, b.Name)
			if err != nil {
				return err
			}
			b.Of, b.Zone = set.of, cmp.Or(b.Zone, found.Zone)
			all, err := set.preview(ctx, tx, b.Name, p)
			if err != nil {
				return err
			}
			return b.fill(all)
		})
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(b)
	}
	return a.printBackfill(b)
}

// fill notes the occurrences by the clocks of the zone.
func (b *backfilledSchedule) fill(all []periodic.Occurrence) error {
	zone, err := zones.Load(b.Zone)
	if err != nil {
		return fmt.Errorf("the zone of the schedule is not known here: %w: name another by --zone", err)
	}
	for _, o := range all {
		if b.Times = append(b.Times, plannedOccurrence{newOccurrence(o.Nominal.In(zone)), o.Duplicate}); !o.Duplicate {
			b.Set++
		}
	}
	return nil
}

func (a *app) printBackfill(b backfilledSchedule) error {
	g := newGrid(a.stdout, "LOCAL", "OFFSET", "UTC", strings.ToUpper(b.noun()))
	for _, o := range b.Times {
		state := "missing"
		if o.Exists {
			state = "exists"
		}
		g.add(o.Day+" "+o.Local, o.Offset, o.UTC.Format(time.RFC3339), state)
	}
	if err := g.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stderr, "txwork: nothing was written: %s of schedule %s would be\n",
		plural(b.Set, b.noun()), named(b.Name))
	return err
}
