package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// newScheduleChangeCommand makes a command that changes one schedule.
func newScheduleChangeCommand(
	a *app, verb, short, done string, change func(*timers.Schedules, context.Context, workqueue.Tx, string) error,
) *cobra.Command {
	cmd := newCommand(verb+" NAME", short, cobra.ExactArgs(1))
	asJSON := jsonFlag(cmd, changedSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, name := cmd.Context(), args[0]
		return a.withTimers(ctx, func(d *database, t *timers.Timers) error {
			if err := d.write(ctx, func(tx workqueue.Tx) error {
				return change(t.Schedules(), ctx, tx, name)
			}); err != nil {
				return err
			}
			return a.reportSchedule(name, *asJSON, changedSchedule{name, done == "paused", done == "resumed",
				done == "deleted"}, done)
		})
	}
	return cmd
}

// A changedSchedule is what pause, resume and delete print.
type changedSchedule struct {
	Name    string `json:"name"`
	Paused  bool   `json:"paused,omitempty"`  // set by pause
	Resumed bool   `json:"resumed,omitempty"` // set by resume
	Deleted bool   `json:"deleted,omitempty"` // set by delete
}

// A triggeredSchedule is what trigger prints.
type triggeredSchedule struct {
	Name string `json:"name"`
	Key  string `json:"key"` // key of the timer
}

// A backfilledSchedule is what backfill prints.
type backfilledSchedule struct {
	Name string `json:"name"`
	Set  int    `json:"set"` // number of timers that were set
}

// reportSchedule says what was done to a schedule.
func (a *app) reportSchedule(name string, asJSON bool, form any, done string) error {
	if asJSON {
		return a.printJSON(form)
	}
	_, err := fmt.Fprintf(a.stdout, "schedule %s %s\n", harmless(name), done)
	return err
}

func newSchedulesTriggerCommand(a *app) *cobra.Command {
	cmd := newCommand("trigger NAME", "Set a schedule's timer now, in addition to its plan", cobra.ExactArgs(1))
	asJSON := jsonFlag(cmd, triggeredSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, name := cmd.Context(), args[0]
		return a.withTimers(ctx, func(d *database, t *timers.Timers) error {
			var key string
			err := d.write(ctx, func(tx workqueue.Tx) (err error) {
				key, err = t.Schedules().Trigger(ctx, tx, name)
				return err
			})
			if err != nil {
				return err
			}
			return a.reportSchedule(name, *asJSON, triggeredSchedule{name, key}, "triggered: timer "+harmless(key))
		})
	}
	return cmd
}

func newSchedulesBackfillCommand(a *app) *cobra.Command {
	var from, to moment
	cmd := newCommand("backfill NAME --from TIME --to TIME", "Set the timers of a schedule for a period in the past",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.Var(&from, "from", "the earliest time, as RFC 3339 has it")
	flags.Var(&to, "to", "the latest time, as RFC 3339 has it")
	cmd.MarkFlagRequired("from")
	cmd.MarkFlagRequired("to")
	asJSON := jsonFlag(cmd, backfilledSchedule{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to.Before(from.Time) {
			return usagef("--to %s is before --from %s", to.Format(time.RFC3339), from.Format(time.RFC3339))
		}
		ctx, name := cmd.Context(), args[0]
		return a.withTimers(ctx, func(d *database, t *timers.Timers) error {
			var written int
			err := d.write(ctx, func(tx workqueue.Tx) (err error) {
				written, err = t.Schedules().Backfill(ctx, tx, name, from.Time, to.Time)
				return err
			})
			if err != nil {
				return err
			}
			return a.reportSchedule(name, *asJSON, backfilledSchedule{name, written}, "backfilled: "+
				plural(written, "timer")+" set")
		})
	}
	return cmd
}
