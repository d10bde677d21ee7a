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
		"only timers in this state: ready, in_progress, done or failed; repeat for more")
	flags.IntVar(&o.filter.Limit, "limit", defaultListLimit, "timers of a page")
	flags.StringVar(&o.filter.After, "after", "", "continue after this `key`")
	jsonVar(flags, &o.json, jsonUsage, timersPage{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.filter.Limit < 1 || o.filter.Limit >= timers.MaxPage {
			return usagef("--limit is %d, it must be between 1 and %d", o.filter.Limit, timers.MaxPage-1)
		}
		if o.filter.Status, err = parseStatuses(o.statuses); err != nil {
			return err
		}
		return a.withTimers(cmd.Context(), func(d *database, t *timers.Timers) error {
			return a.listTimers(cmd.Context(), d, t, o)
		})
	}
	return cmd
}

func parseStatuses(names []string) ([]workqueue.Status, error) {
	statuses := make([]workqueue.Status, len(names))
	for i, name := range names {
		var err error
		if statuses[i], err = workqueue.ParseStatus(name); err != nil {
			return nil, usagef("--status %q is unknown, want one of ready, in_progress, done, failed", name)
		}
	}
	return statuses, nil
}

// A timersPage is what list prints.
type timersPage struct {
	Timers []shownTimer `json:"timers"`         // in the order of their keys
	Next   string       `json:"next,omitempty"` // for --after; missing on the last page
}

func (a *app) listTimers(ctx context.Context, d *database, t *timers.Timers, o timersListOptions) error {
	p := timersPage{Timers: []shownTimer{}}
	var now time.Time
	err := d.readTx(ctx, func(tx workqueue.Tx, at time.Time) error {
		now = at
		f := o.filter
		f.Limit++ // one more row than is shown reveals whether there is a next page
		list, err := t.List(ctx, tx, f)
		for _, i := range list[:min(len(list), o.filter.Limit)] {
			p.Timers = append(p.Timers, newShownTimer(i))
		}
		if len(list) > o.filter.Limit {
			p.Next = list[o.filter.Limit-1].Key
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
		g.add(cell(t.Key, cellWidth), cell(t.Topic, cellWidth), t.Status, stamp(t.next(), now),
			fmt.Sprintf("%d/%d", t.Attempts, t.MaxAttempts), dashed(t.Schedule), dashed(t.LastError))
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore("--after", p.Next)
}
