package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
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
	cmd := newCommand("list [--prefix PREFIX]", "List timers by key", noArguments)
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
	Timers []shownTimer `json:"timers"`         // in the order of their keys
	Next   string       `json:"next,omitempty"` // for --after; missing on the last page
	// Searched is how many timers were searched, if the page ended there before it was full: next goes on there.
	Searched int  `json:"searched,omitempty"`
	Partial  bool `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more
}

func (a *app) listTimers(ctx context.Context, d *database, t *timers.Timers, o timersListOptions) error {
	p := timersPage{Timers: []shownTimer{}, Partial: d.Partial}
	var now time.Time
	err := d.readTx(ctx, func(tx workqueue.Tx, at time.Time) error {
		now = at
		upTo, err := d.timersSearchedUpTo(ctx, tx, o.filter)
		if err != nil {
			return err
		}
		o.filter.UpTo = upTo
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
		switch {
		case more:
			p.Next = list[len(list)-1].Key
		case upTo != "":
			p.Next, p.Searched = upTo, operate.MaxSearched
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

// timersSearchedUpTo returns the last key that a page of a filter searches. It is empty if nothing needs to be bounded.
func (d *database) timersSearchedUpTo(ctx context.Context, tx workqueue.Tx, f timers.Filter) (upTo string, err error) {
	if len(f.State) == 0 || livesOnly(f.State) {
		return "", nil
	}
	return searchEnd(ctx, tx, "SELECT key FROM "+pgx.Identifier{d.Schema, "timers"}.Sanitize()+
		" WHERE key > $1::text AND key >= $2::text AND starts_with(key, $2::text) ORDER BY key OFFSET $3::int LIMIT 1",
		f.After, f.Prefix)
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
	if p.Searched > 0 {
		return a.hintSearch("timer", p.Searched, p.Next)
	}
	return a.hintMore(p.Next)
}
