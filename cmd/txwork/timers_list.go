package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/timers"
	"github.com/txwork/txwork/workqueue"
)

// timersListOptions are the flags of list.
type timersListOptions struct {
	filter   timers.Filter
	statuses []string
	json     bool
}

func newTimersListCommand(a *app) *cobra.Command {
	var o timersListOptions
	cmd := newCommand("list [--prefix PREFIX]", "List timers by key", cobra.NoArgs)
	flags := cmd.Flags()
	flags.StringVar(&o.filter.Prefix, "prefix", "", "only keys that begin so")
	flags.StringSliceVar(&o.statuses, "status", nil,
		"only timers in this `state`: "+listingNames()+"; repeat for more")
	flags.IntVar(&o.filter.Limit, "limit", defaultListLimit, "timers of a page")
	flags.StringVar(&o.filter.After, "after", "", "continue after this `key`, the last of the previous page")
	jsonVar(flags, &o.json, jsonUsage, timersPage{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := checkLimit(o.filter.Limit); err != nil {
			return err
		}
		if o.filter.State, err = parseStates(o.statuses); err != nil {
			return err
		}
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.listTimers(cmd.Context(), d, t, o)
		})
	}
	return cmd
}

// A timersPage is what list prints.
type timersPage struct {
	Timers  []shownTimer `json:"timers"`            // in the order of their keys
	Next    string       `json:"next,omitempty"`    // for --after; missing on the last page
	Partial bool         `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

func (a *app) listTimers(ctx context.Context, d *database, t *timers.Timers, o timersListOptions) error {
	p := timersPage{Timers: []shownTimer{}, Partial: d.Partial}
	var now time.Time
	err := d.readTx(ctx, func(tx workqueue.Tx, at time.Time) error {
		now = at
		list, more, err := pageOf(o.filter.Limit, timers.MaxPage, func(limit int, last *timers.Info) ([]timers.Info,
			error) {
			f := o.filter
			if f.Limit = limit; last != nil {
				f.After = last.Key
			}
			return t.List(ctx, tx, f)
		})
		for _, i := range list {
			p.Timers = append(p.Timers, newShownTimer(i, now))
		}
		if more {
			p.Next = list[len(list)-1].Key
		}
		return err
	})
	if err != nil {
		return err
	}
	if o.json {
		return a.printJSON(p)
	}
	return a.printTimers(p, now)
}

func (a *app) printTimers(p timersPage, now time.Time) error {
	g := newGrid(a.stdout, "KEY", "TOPIC", "STATUS", "FIRES", "ATTEMPTS", "SCHEDULE", "LAST ERROR")
	for _, t := range p.Timers {
		g.add(named(t.Key), named(t.Topic), t.State, stamp(t.next(), now),
			fmt.Sprintf("%d/%d", t.Attempts, t.MaxAttempts), namedOrDash(t.Schedule), dashed(t.LastError))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}
