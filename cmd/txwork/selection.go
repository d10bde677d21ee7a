package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/txwork/txwork/workqueue"
)

// A selection is the flags that say which rows a command changes if they are not named one by one, and whether it asks
// first.
type selection struct {
	filter
	parts []listing
	all   bool // all rows, without a filter
	limit int
	asking
}

// An asking is the flags of a command whose effect cannot be undone.
type asking struct{ yes, dryRun, json bool }

func (k *asking) addFlags(flags *pflag.FlagSet, form any) {
	flags.BoolVar(&k.yes, "yes", false, "do not ask")
	flags.BoolVar(&k.dryRun, "dry-run", false, "only count the rows")
	jsonVar(flags, &k.json, jsonUsage, form)
}

// check refuses flags under which the command could not ask.
func (k asking) check() error {
	if k.json && !k.yes && !k.dryRun {
		return usagef("--json cannot ask: pass --yes or --dry-run")
	}
	return nil
}

func (s *selection) addFlags(flags *pflag.FlagSet, form any) {
	s.filter.addFlags(flags)
	flags.IntVar(&s.limit, "limit", 0, "without IDs, at most so many rows (default: all)")
	s.asking.addFlags(flags, form)
}

// check says what is wrong with the flags, given whether ids were named. The parameter all is the name of the flag that
// selects all rows.
func (s selection) check(named bool, all string) error {
	selects := s.all || s.filter.given()
	switch {
	case named == selects:
		return usagef("say which rows: either their ids, or %s or a filter", all)
	case named && (s.limit != 0 || s.dryRun):
		return usagef("--limit and --dry-run go with %s and filters", all)
	case s.limit < 0:
		return usagef("--limit is %d, it must be at least 1", s.limit)
	case named:
		return nil
	}
	if err := s.asking.check(); err != nil {
		return err
	}
	return s.filter.check()
}

// selected is what a command found to change, as JSON.
type selected struct {
	Matched int  `json:"matched"` // rows that the filter matched; missing where ids were given
	DryRun  bool `json:"dry_run"` // nothing was changed; missing where ids were given
}

// text says what was done to the rows.
func (s *selected) text(table, verb string, changed int) string {
	switch {
	case s.DryRun:
		return fmt.Sprintf("%s of %s would be %s\n", plural(s.Matched, "row"), table, verb)
	case changed != s.Matched:
		return fmt.Sprintf("%d of %s of %s %s\n", changed, plural(s.Matched, "row"), table, verb)
	}
	return fmt.Sprintf("%s of %s %s\n", plural(changed, "row"), table, verb)
}

// selected counts, asks, and changes in batches the rows that were already in the state when it counted.
func (r *repair) selected(ctx context.Context, s selection) error {
	now, err := r.db.now(ctx)
	if err != nil {
		return err
	}
	r.selecting = &selected{DryRun: s.dryRun}
	var parts []listing
	for _, part := range s.parts {
		parts = append(parts, part.before(now))
	}
	r.selecting.Matched, err = r.db.count(ctx, r.table, s.filter, s.limit, parts...)
	if err != nil || s.dryRun || r.selecting.Matched == 0 {
		return err
	}
	question := fmt.Sprintf(r.question, plural(r.selecting.Matched, "row")+" of "+r.table.Name())
	if err := r.db.app.confirm(ctx, s.asking, question); err != nil {
		return err
	}
	progress := r.db.app.newTally(r.done, "rows", int64(r.selecting.Matched))
	defer progress.end()
	return r.db.each(ctx, r.table, s.filter, s.limit, parts, func(ids []uuid.UUID) (int, error) {
		all, err := r.db.decide(ctx, r.table, r.verb, ids)
		n := changedOf(all)
		r.changed += n
		progress.set(int64(r.changed))
		return n, err
	})
}

// now returns the time of the database.
func (d *database) now(ctx context.Context) (now time.Time, err error) {
	return now, d.reader.GetContext(ctx, &now, "SELECT now()")
}

// before returns the listing's rows that have been in its state since before a time, as far as the index tells, oldest
// first.
func (l listing) before(t time.Time) listing {
	column := l.since
	column = cmp.Or(column, "created_at")
	l.where += fmt.Sprintf(" AND r.%s <= timestamptz '%s'", column, t.UTC().Format("2006-01-02T15:04:05.999999Z"))
	l.down = false
	return l
}

// count returns how many rows of some listings match a filter, up to limit; a limit of 0 is none.
func (d *database) count(ctx context.Context, t *workqueue.Table, f filter, limit int, parts ...listing) (n int,
	err error) {
	progress := d.app.newTally("counting", "rows", -1)
	defer progress.end()
	err = d.each(ctx, t, f, limit, parts, func(ids []uuid.UUID) (int, error) {
		n += len(ids)
		progress.set(int64(n))
		return len(ids), nil
	})
	return n, err
}

// each passes the rows of some listings that match a filter to do, in batches, until do has changed limit rows in
// total; a limit of 0 is none.
func (d *database) each(
	ctx context.Context, t *workqueue.Table, f filter, limit int, parts []listing, do func([]uuid.UUID) (int, error),
) error {
	done := 0
	for _, part := range parts {
		s, err := d.newScan(ctx, t, part, f)
		if err != nil {
			return err
		}
		for more := true; more; {
			var found []foundPlace
			if found, more, err = s.next(ctx); err != nil {
				return err
			}
			for len(found) > 0 {
				size := min(len(found), repairBatch)
				if limit > 0 {
					size = min(size, limit-done)
				}
				if size == 0 {
					return nil
				}
				ids := make([]uuid.UUID, size)
				for i := range ids {
					ids[i] = found[i].ID
				}
				n, err := do(ids)
				if err != nil {
					return err
				}
				done, found = done+n, found[size:]
			}
		}
	}
	return nil
}
