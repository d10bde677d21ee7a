package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// purgeBatch is how many rows one transaction deletes. The number is small, so that its locks are held only briefly.
const purgeBatch = 1000

// purgeOptions are the flags of purge.
type purgeOptions struct {
	done, failed age
	limit        int
	filter       operate.Filter
	asking
}

func newPurgeCommand(a *app) *cobra.Command {
	var o purgeOptions
	cmd := newCommand("purge TABLE (--done-older-than AGE | --failed-older-than AGE) [FILTER...]", "Delete rows that ended longer ago than a given time",
		cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.Var(&o.done, "done-older-than", "delete rows done or cancelled longer ago than this")
	flags.Var(&o.failed, "failed-older-than", "delete dead letters older than this")
	flags.IntVar(&o.limit, "limit", 0, "delete at most this many of each kind (default: all)")
	addFilterFlags(flags, &o.filter)
	o.asking.addFlags(flags, purged{})
	o.addExact(flags)
	cmd.MarkFlagsOneRequired("done-older-than", "failed-older-than")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.limit < 0 || flags.Changed("limit") && o.limit == 0 {
			return usagef("--limit is %d, it must be at least 1", o.limit)
		}
		if err := cmp.Or(o.asking.check(), refusedFlag(o.filter.Check())); err != nil {
			return err
		}
		return a.withTable(cmd.Context(), args[0], func(d *database, t *workqueue.Table) error {
			return a.purge(cmd.Context(), d, t, o)
		})
	}
	return cmd
}

// purged is what purge prints.
type purged struct {
	Table  string `json:"table"`   // with its schema
	Done   int    `json:"done"`    // rows that were done or cancelled
	Failed int    `json:"failed"`  // dead letters
	DryRun bool   `json:"dry_run"` // nothing was deleted: these would be

	AtLeast bool `json:"at_least,omitempty"` // with --dry-run: there may be more, since it reads at most 5000 rows of each kind
}

func (p purged) rows() int { return p.Done + p.Failed }

// A purging deletes the rows that one of the two ages selects.
type purging struct {
	age
	rows  operate.Selection
	purge func(*workqueue.Queue, context.Context, time.Duration, int) (int, error) // used if there is no filter
	count func(*purged) *int
}

// purge counts, asks, and reports what it deleted, even if it fails later.
func (a *app) purge(ctx context.Context, d *database, t *workqueue.Table, o purgeOptions) error {
	now, err := d.Now(ctx)
	if err != nil {
		return explain(err)
	}
	of := func(l operate.Listing) operate.Selection {
		return operate.Selection{Filter: o.filter, Limit: o.limit, Parts: []operate.Listing{l}}
	}
	parts := []purging{
		{o.done, of(operate.Ended), (*workqueue.Queue).PurgeDone, func(p *purged) *int { return &p.Done }},
		{o.failed, of(operate.DeadLetters), (*workqueue.Queue).PurgeFailed, func(p *purged) *int { return &p.Failed }},
	}
	found, p := purged{Table: t.Name(), DryRun: true}, purged{Table: t.Name()}
	for i := range parts {
		part := &parts[i]
		if part.Given {
			part.rows = part.rows.At(now).Before(now.Add(-part.Duration))
			n, more, err := d.countFor(ctx, t, part.rows, o.asking)
			if err != nil {
				return explain(err)
			}
			*part.count(&found), found.AtLeast = n, found.AtLeast || more
		}
	}
	if err := d.refuseUnknown(ctx, o.filter, found.rows()); err != nil {
		return explain(err)
	}
	if o.dryRun {
		return a.printPurged(found, o.json)
	}
	if found.rows() > 0 {
		question := fmt.Sprintf("Delete %d done and %d failed rows of %s for good?", found.Done, found.Failed, t.Name())
		if err := a.confirm(ctx, o.asking, question); err != nil {
			return err
		}
		act := operate.Act{Verb: "purge", Target: t.Spec().Table,
			About: purgedAbout{o.done.String(), o.failed.String(), o.filter, found.rows()}}
		err = d.acting(ctx, act, func(action uuid.UUID) error {
			return a.purgeParts(ctx, d, t, o, action, act, parts, &p, found.rows())
		})
	}
	if printErr := a.printPurged(p, o.json); err == nil {
		err = printErr
	}
	return explain(err)
}

// A purgedAbout is what the audit says of a purge.
type purgedAbout struct {
	Done    string         `json:"done_older_than,omitempty"`
	Failed  string         `json:"failed_older_than,omitempty"`
	Filter  operate.Filter `json:"filter"`
	Counted int            `json:"counted"`
}

// acting records in the audit that an act begins, and how it has ended.
func (d *database) acting(ctx context.Context, act operate.Act, do func(action uuid.UUID) error) error {
	action := uuid.New()
	if err := d.Begin(ctx, action, act); err != nil {
		return err
	}
	err := do(action)
	return cmp.Or(err, d.End(ctx, action, act, reasonOf(err)))
}

// reasonOf says for the audit why an action stopped before its end.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (a *app) purgeParts(ctx context.Context, d *database, t *workqueue.Table, o purgeOptions, action uuid.UUID,
	act operate.Act, parts []purging, p *purged, total int) error {
	progress := a.newTally("deleted", "rows", int64(total))
	defer progress.end()
	for _, part := range parts {
		if !part.Given {
			continue
		}
		count := part.count(p)
		err := part.run(ctx, d, t, o, action, act, func(n int) {
			*count += n
			progress.set(int64(p.rows()))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run deletes the rows of one part, each batch in its own transaction, and reports every batch that is committed.
func (p purging) run(ctx context.Context, d *database, t *workqueue.Table, o purgeOptions, action uuid.UUID,
	act operate.Act, committed func(int)) error {
	delete := func(some func(workqueue.Tx) (int, error)) (n int, err error) {
		err = d.Batch(ctx, action, act, func(tx workqueue.Tx) (int, error) {
			n, err = some(tx)
			return n, err
		})
		if err != nil {
			return 0, err // nothing was committed
		}
		committed(n)
		return n, nil
	}
	if !o.filter.Given() {
		return inBatches(o.limit, func(size int) (int, error) {
			return delete(func(tx workqueue.Tx) (int, error) { return p.purge(t.In(tx), ctx, p.Duration, size) })
		})
	}
	return d.Each(ctx, t, p.rows, func(ids []uuid.UUID) (int, error) {
		return delete(func(tx workqueue.Tx) (int, error) {
			return operate.DeleteRows(ctx, tx, t, p.rows.Parts[0], ids)
		})
	})
}

// inBatches deletes until it reaches the limit or no rows are left.
func inBatches(limit int, purge func(size int) (int, error)) error {
	for done := 0; limit == 0 || done < limit; {
		size := purgeBatch
		if limit > 0 {
			size = min(size, limit-done)
		}
		n, err := purge(size)
		if done += n; err != nil || n < size {
			return err
		}
	}
	return nil
}

func (a *app) printPurged(p purged, asJSON bool) error {
	if asJSON {
		return a.printJSON(p)
	}
	verb := "deleted from"
	if p.DryRun {
		verb = "would be deleted from"
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s: %s%d done, %d failed%s\n", verb, p.Table, leastOf(p.AtLeast), p.Done,
		p.Failed, exactly(p.AtLeast))
	return err
}

// An age is a flag for a duration, which may also be given in days and weeks.
type age operate.Age

func (g *age) String() string {
	if !g.Given {
		return ""
	}
	return g.Duration.String()
}

// Type implements pflag.Value.
func (g *age) Type() string { return "age" }

// Set implements pflag.Value.
func (g *age) Set(text string) error {
	d, err := input.Duration(text)
	if err != nil {
		return err
	}
	g.Given, g.Duration = true, d
	return nil
}
