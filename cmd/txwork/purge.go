package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

// purgeBatch is how many rows one transaction deletes: few enough to hold locks for an instant only.
const purgeBatch = 1000

// purgeOptions are the flags of purge.
type purgeOptions struct {
	done, failed age
	limit        int
	yes, json    bool
}

func newPurgeCommand(a *app) *cobra.Command {
	var o purgeOptions
	cmd := &cobra.Command{
		Use:   "purge TABLE (--done-older-than AGE | --failed-older-than AGE) --yes",
		Short: "Delete rows that ended some time ago",
		Long: `Delete rows that were done or cancelled, or failed, longer ago than an age such as 90d, 36h or 2w, the oldest first, in
short transactions. Deleted rows cannot be had back, and a dedup key is free again when its row is gone: a done
row of the inbox is what tells a message that comes again, so keep those for the dedup window.`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.Var(&o.done, "done-older-than", "delete rows done or cancelled longer ago than this")
	flags.Var(&o.failed, "failed-older-than", "delete dead letters older than this")
	flags.IntVar(&o.limit, "limit", 0, "delete at most so many of each kind (default: all)")
	flags.BoolVar(&o.yes, "yes", false, "really delete")
	flags.BoolVar(&o.json, "json", false, "print one JSON object on one line")
	cmd.MarkFlagsOneRequired("done-older-than", "failed-older-than")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.limit < 0 || flags.Changed("limit") && o.limit == 0 {
			return usagef("--limit is %d, it must be at least 1", o.limit)
		}
		if !o.yes {
			return usagef("purge deletes rows for good: pass --yes to do so")
		}
		return a.withTable(cmd.Context(), args[0], func(d *database, t *workqueue.Table) error {
			return a.purge(cmd.Context(), d, t, o)
		})
	}
	return cmd
}

// purged is what purge prints.
type purged struct {
	Table  string `json:"table"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
}

// purge reports what it deleted, also before an error.
func (a *app) purge(ctx context.Context, d *database, t *workqueue.Table, o purgeOptions) error {
	q := t.On(d.pool)
	p := purged{Table: t.Name()}
	err := o.done.each(ctx, q.PurgeDone, o.limit, &p.Done)
	if err == nil {
		err = o.failed.each(ctx, q.PurgeFailed, o.limit, &p.Failed)
	}
	if printErr := a.printPurged(p, o.json); err == nil {
		err = printErr
	}
	return explain(err)
}

func (a *app) printPurged(p purged, asJSON bool) error {
	if asJSON {
		return a.printJSON(p)
	}
	_, err := fmt.Fprintf(a.stdout, "deleted from %s: %d done, %d failed\n", p.Table, p.Done, p.Failed)
	return err
}

// An age is a flag for a duration that may be in days and weeks.
type age struct {
	given bool
	time.Duration
}

func (g *age) String() string {
	if !g.given {
		return ""
	}
	return g.Duration.String()
}

// Type implements pflag.Value.
func (g *age) Type() string { return "age" }

// Set implements pflag.Value.
func (g *age) Set(text string) error {
	d, err := parseAge(text)
	if err != nil {
		return err
	}
	g.given, g.Duration = true, d
	return nil
}

// maxAge is ten years, the core's bound.
const maxAge = 10 * 365 * 24 * time.Hour

func parseAge(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			if err != nil || time.Duration(n) > maxAge/unit {
				return 0, fmt.Errorf("want a length of time such as 90d or 36h, up to ten years")
			}
			return time.Duration(n) * unit, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxAge {
		return 0, fmt.Errorf("want a length of time such as 90d or 36h, up to ten years")
	}
	return d, nil
}

// each deletes in batches until the limit or until there are no more, and counts.
func (g *age) each(ctx context.Context, purge func(context.Context, time.Duration, int) (int, error), limit int, count *int) error {
	for g.given && (limit == 0 || *count < limit) {
		size := purgeBatch
		if limit > 0 {
			size = min(size, limit-*count)
		}
		n, err := purge(ctx, g.Duration, size)
		*count += n
		if err != nil || n < size {
			return err
		}
	}
	return nil
}
