package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/workqueue"
)

// A selection is the flags that say which rows a command changes if they are not named one by one, and whether it asks
// first.
type selection struct {
	operate.Order
	all bool // all rows, without a filter
	asking
}

// An asking is the flags of a command whose effect cannot be undone.
type asking struct{ yes, dryRun, exact, json bool }

func (k *asking) addFlags(flags *pflag.FlagSet, form any) {
	flags.BoolVar(&k.yes, "yes", false, "do not ask")
	flags.BoolVar(&k.dryRun, "dry-run", false, "only count the rows")
	jsonVar(flags, &k.json, jsonUsage, form)
}

// addExact adds the flag of commands whose rows may be too many to be counted by the way.
func (k *asking) addExact(flags *pflag.FlagSet) {
	flags.BoolVar(&k.exact, "exact", false, fmt.Sprintf("with --dry-run, which reads at most %d rows: %s", operate.MaxSearched,
		exactMeaning))
}

// check refuses flags under which the command could not ask.
func (k asking) check() error {
	if k.json && !k.yes && !k.dryRun {
		return usagef("--json cannot ask: pass --yes or --dry-run")
	}
	if k.exact && !k.dryRun {
		return usagef("--exact goes with --dry-run: what asks first counts all rows anyway")
	}
	return nil
}

func (s *selection) addFlags(flags *pflag.FlagSet, form any) {
	addFilterFlags(flags, &s.Filter)
	flags.IntVar(&s.Limit, "limit", 0, "without IDs, at most so many rows (default: all)")
	s.asking.addFlags(flags, form)
	s.addExact(flags)
}

// check says what is wrong with the flags, given whether ids were named. The parameter all is the name of the flag that
// selects all rows.
func (s selection) check(named bool, all string) error {
	selects := s.all || s.Filter.Given()
	switch {
	case named == selects:
		return usagef("say which rows: either their ids, or %s or a filter", all)
	case named && (s.Limit != 0 || s.dryRun || s.exact):
		return usagef("--limit, --dry-run and --exact go with %s and filters", all)
	case s.Limit < 0:
		return usagef("--limit is %d, it must be at least 1", s.Limit)
	case named:
		return nil
	}
	if err := s.asking.check(); err != nil {
		return err
	}
	return refusedFlag(s.Filter.Check())
}

// selected is what a command found to change, as JSON.
type selected struct {
	Matched int  `json:"matched"` // rows that the filter matched; missing where ids were given
	DryRun  bool `json:"dry_run"` // nothing was changed; missing where ids were given

	AtLeast bool `json:"at_least,omitempty"` // with --dry-run: there may be more, since it reads at most 5000 rows
}

// text says what was done to the rows.
func (s *selected) text(table, verb string, changed int) string {
	switch {
	case s.DryRun:
		return fmt.Sprintf("%s%s of %s would be %s%s\n", leastOf(s.AtLeast), plural(s.Matched, "row"), table, verb,
			exactly(s.AtLeast))
	case changed != s.Matched:
		return fmt.Sprintf("%d of %s of %s %s\n", changed, plural(s.Matched, "row"), table, verb)
	}
	return fmt.Sprintf("%s of %s %s\n", plural(changed, "row"), table, verb)
}

// selected counts, asks, and changes in batches the rows that were already in the state when it counted.
func (r *repair) selected(ctx context.Context, s selection) error {
	now, err := r.db.Now(ctx)
	if err != nil {
		return err
	}
	r.selecting = &selected{DryRun: s.dryRun}
	o := s.Order
	o.Action, o.Table, o.Verb, o.Args, o.Before = uuid.New(), r.table.Spec().Table, r.Name, r.Args, now
	n, more, err := r.db.countFor(ctx, r.table, o.Selection(), s.asking)
	o.Found(n, more)
	r.selecting.Matched, r.selecting.AtLeast = n, more
	if err == nil {
		err = r.db.refuseUnknown(ctx, s.Filter, n)
	}
	if err != nil || s.dryRun || r.selecting.Matched == 0 {
		return err
	}
	question := fmt.Sprintf(r.question, plural(r.selecting.Matched, "row")+" of "+r.table.Name())
	if err := r.db.app.confirm(ctx, s.asking, question); err != nil {
		return err
	}
	progress := r.db.app.newTally(r.Done, "rows", int64(r.selecting.Matched))
	defer progress.end()
	return r.db.Start(ctx, r.table, o, func(n int) {
		r.changed += n
		progress.set(int64(r.changed))
	})
}

// countFor counts the rows that are to be changed: all of them before they are, and only so many if nothing is changed.
func (d *database) countFor(ctx context.Context, t *workqueue.Table, s operate.Selection, k asking) (n int, more bool,
	err error) {
	if k.dryRun && !k.exact {
		return d.Preview(ctx, t, s)
	}
	n, err = d.count(ctx, t, s)
	return n, false, err
}

// count counts the rows of a selection, and shows how far it has come.
func (d *database) count(ctx context.Context, t *workqueue.Table, s operate.Selection) (int, error) {
	progress := d.app.newTally("counting", "rows", -1)
	defer progress.end()
	return d.Count(ctx, t, s, func(n int) { progress.set(int64(n)) })
}
