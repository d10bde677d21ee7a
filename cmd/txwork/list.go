package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/txwork/txwork/internal/operate"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

const (
	defaultListLimit = 50

	// maxListLimit bounds what is held in memory at once. To read more, --after continues where the page ended.
	maxListLimit = 10_000

	// cellWidth keeps each row on one line.
	cellWidth = 40
)

// stateNames are the values of --status, in the order in which a row goes through the states.
func stateNames() []string {
	var names []string
	for _, s := range workqueue.States() {
		names = append(names, string(s))
	}
	return names
}

func listingNames() string { return strings.Join(stateNames(), ", ") }

// parseStates reads the values of --status.
func parseStates(names []string) ([]workqueue.State, error) {
	states := make([]workqueue.State, len(names))
	for i, name := range names {
		var err error
		if states[i], err = workqueue.ParseState(name); err != nil {
			return nil, usagef("--status %q is unknown, want one of %s", name, listingNames())
		}
	}
	return states, nil
}

// pageOf reads one page, and one item more, which reveals whether there is a next page. The library reads at most as
// many at once as most says.
func pageOf[T any](limit, most int, read func(limit int, last *T) ([]T, error)) (list []T, more bool, err error) {
	for len(list) <= limit {
		var last *T
		if n := len(list); n > 0 {
			last = &list[n-1]
		}
		want := min(limit+1-len(list), most)
		found, err := read(want, last)
		if err != nil {
			return nil, false, err
		}
		if list = append(list, found...); len(found) < want {
			break
		}
	}
	return list[:min(len(list), limit)], len(list) > limit, nil
}

// checkLimit refuses sizes of pages that a list cannot have.
func checkLimit(limit int) error {
	if limit < 1 || limit > maxListLimit {
		return usagef("--limit is %d, it must be between 1 and %d", limit, maxListLimit)
	}
	return nil
}

// listOptions are the flags of list.
type listOptions struct {
	operate.ListOptions
	json bool
}

func newListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := newCommand("list TABLE --status STATUS", "List the rows of a table in one state", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringVar(&o.State, "status", "", "`state` of the rows: "+listingNames())
	flags.IntVar(&o.Limit, "limit", defaultListLimit, "rows of a page")
	flags.StringVar(&o.After, "after", "", "continue after this `position`, the last of the previous page")
	jsonVar(flags, &o.json, jsonUsage, operate.Page{})
	addFilterFlags(flags, &o.Filter)
	requiredFlags(cmd, "status")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		if isLog(a.schema, args[0]) && o.State == "scheduled" {
			return a.listScheduled(cmd.Context(), args[0], o)
		}
		return a.withTable(cmd.Context(), args[0], func(d *database, t *workqueue.Table) error {
			p, err := d.list(cmd.Context(), t, o.ListOptions)
			if err == nil {
				err = d.refuseUnknown(cmd.Context(), o.Filter, len(p.Rows))
			}
			if err != nil {
				return explain(err)
			}
			if o.json {
				return a.printJSON(p)
			}
			return a.printPage(p, o.State)
		})
	}
	return cmd
}

func (o listOptions) validate() error {
	if _, ok := operate.Listings[o.State]; !ok {
		return usagef("--status %q is unknown, want one of %s", o.State, listingNames())
	}
	if err := checkLimit(o.Limit); err != nil {
		return err
	}
	return refusedFlag(o.Filter.Check())
}

// list reads a page, and shows how far it has come.
func (d *database) list(ctx context.Context, t *workqueue.Table, o operate.ListOptions) (*operate.Page, error) {
	progress := d.app.newTally("looking", "rows", -1)
	defer progress.end()
	return d.List(ctx, t, o, func(rows int) { progress.set(int64(rows)) })
}

func (a *app) printPage(p *operate.Page, state string) error {
	l, columns := operate.Listings[state], operate.ListedColumns(p.Domain, p.Columns)
	header := []string{"ID", l.When, "ATTEMPTS"}
	if l.Runs {
		header = append(header, "RUNNING SINCE")
	}
	for _, c := range columns {
		header = append(header, strings.ToUpper(named(c.Name)))
	}
	g := newGrid(a.stdout, append(header, "LAST ERROR")...)
	for _, r := range p.Rows {
		cells := []string{r.ID.String(), stampOrDash(l.Time(&r.Row), p.Now), fmt.Sprintf("%d/%d", r.Attempts,
			r.MaxAttempts)}
		if l.Runs {
			cells = append(cells, stampOrDash(r.RunningFrom, p.Now))
		}
		g.add(append(append(cells, cellsOf(&r.Row, columns)...), lastError(&r.Row))...)
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	if p.Searched > 0 {
		_, err := fmt.Fprintf(a.stderr, "txwork: %s: --after %s goes on\n", searched(p), postgres.Shell(p.Next))
		return err
	}
	return a.hintMore(p.Next)
}

// searched says how far a page has searched that ended before it was full.
func searched(p *operate.Page) string {
	text := plural(p.Searched, "row") + " searched"
	if p.SearchedTo != nil {
		text += ", to " + stamp(*p.SearchedTo, p.Now)
	}
	return text
}

func lastError(r *operate.Row) string {
	if r.LastError == nil {
		return "-"
	}
	return cell(*r.LastError, 2*cellWidth)
}
