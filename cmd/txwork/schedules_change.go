package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
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
		err := a.changeSchedule(ctx, verb, *of, c.Name, func(tx workqueue.Tx, s scheduleSet) error {
			c.Of = s.of
			return change(s)(ctx, tx, c.Name)
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
	Of   string `json:"of"` // timers or jobs
	Name string `json:"name"`
	Set  int    `json:"set"` // number of timers or jobs that were written
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
		err := a.changeSchedule(ctx, "trigger", *of, name, func(tx workqueue.Tx, s scheduleSet) (err error) {
			written, err = s.trigger(ctx, tx, name)
			return err
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
	cmd := newCommand("backfill NAME --from TIME --to TIME",
		"Write the timers or jobs of a schedule for a period in the past", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.Var(&p.from, "from", "the earliest time, as RFC 3339 has it")
	flags.Var(&p.to, "to", "the latest time, as RFC 3339 has it")
	cmd.MarkFlagRequired("from")
	cmd.MarkFlagRequired("to")
	of := scheduleFlag(flags, whichUsage)
	asJSON := jsonFlag(cmd, backfilledSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.to.Before(p.from.Time) {
			return usagef("--to %s is before --from %s", p.to.Format(time.RFC3339), p.from.Format(time.RFC3339))
		}
		ctx, b := cmd.Context(), backfilledSchedule{Name: args[0]}
		err := a.changeSchedule(ctx, "backfill", *of, b.Name, func(tx workqueue.Tx, s scheduleSet) (err error) {
			b.Of = s.of
			b.Set, err = s.backfill(ctx, tx, b.Name, p)
			return err
		})
		if err != nil {
			return err
		}
		noun := "timer"
		if b.Of == ofJobs {
			noun = "job"
		}
		return a.reportSchedule(b.Name, *asJSON, b, fmt.Sprintf("backfilled: %s set", plural(b.Set, noun)))
	}
	return cmd
}
