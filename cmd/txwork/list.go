package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

const (
	defaultListLimit = 50

	// maxListLimit bounds what is held in memory at once. There is --after for more.
	maxListLimit = 10_000

	// cellWidth keeps a row on a line.
	cellWidth = 40
)

// A listing is the rows of one state in an order that an index gives, so that a page costs the same
// however large the table is.
type listing struct {
	where string
	order []column // after the lanes, where they lead the index
	lanes bool
	down  bool // the newest first
	when  string
	time  func(*row) *time.Time
}

var (
	claimOrder = []column{{"due_at", "timestamptz"}, {"id", "uuid"}}
	dueAt      = func(r *row) *time.Time { return &r.DueAt }
	lockedAt   = func(r *row) *time.Time { return r.LockedUntil }
)

// listings are the states that can be listed: those of the core, and those that stats counts apart. A row
// in progress was due when it was claimed and has been since, which spares reading those due later.
var listings = map[string]listing{
	"ready": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0", order: claimOrder, lanes: true, when: "DUE", time: dueAt},
	"scheduled": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at > now()",
		order: claimOrder, lanes: true, when: "DUE", time: dueAt},
	"waiting": {where: "r.completed_at IS NULL AND r.waiting", order: []column{{"id", "uuid"}}, when: "DUE", time: dueAt},
	"in_progress": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now()",
		order: claimOrder, lanes: true, when: "LEASE ENDS", time: lockedAt},
	"expired": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now() AND r.locked_until < now()",
		order: claimOrder, lanes: true, when: "LEASE ENDED", time: lockedAt},
	"done": {where: "r.completed_at IS NOT NULL AND r.failed_at IS NULL",
		order: []column{{"completed_at", "timestamptz"}, {"id", "uuid"}}, down: true, when: "DONE",
		time: func(r *row) *time.Time { return r.CompletedAt }},
	"failed": {where: "r.failed_at IS NOT NULL",
		order: []column{{"failed_at", "timestamptz"}, {"id", "uuid"}}, down: true, when: "FAILED",
		time: func(r *row) *time.Time { return r.FailedAt }},
}

func listingNames() string { return strings.Join(slices.Sorted(maps.Keys(listings)), ", ") }

// listOptions are the flags of list.
type listOptions struct {
	status string
	limit  int
	after  string
	json   bool
}

func newListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list TABLE --status STATUS",
		Short: "List the rows of a table that are in one state",
		Long: `List the rows of a table that are in one state, a page at a time: live rows in the order of claiming, done and
failed ones the newest first. STATUS is one of ` + listingNames() + `;
ready includes what is scheduled, in_progress what is expired; waiting is what something else holds back: an
earlier row of its key, or the steps of a join. Payloads are not shown, nor are all columns of txwork's own
tables: see 'txwork show', and --json.`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.status, "status", "", "state of the rows")
	flags.IntVar(&o.limit, "limit", defaultListLimit, "rows of a page")
	flags.StringVar(&o.after, "after", "", "continue after this `position`, which the page before ended with")
	flags.BoolVar(&o.json, "json", false, "print one JSON object on one line")
	cmd.MarkFlagRequired("status")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.validate(); err != nil {
			return err
		}
		return a.withTable(cmd.Context(), args[0], func(d *database, t *workqueue.Table) error {
			p, err := d.list(cmd.Context(), t, o)
			if err != nil {
				return explain(err)
			}
			if o.json {
				return a.printJSON(p)
			}
			return a.printPage(p, o)
		})
	}
	return cmd
}

func (o listOptions) validate() error {
	if _, ok := listings[o.status]; !ok {
		return usagef("--status %q is unknown, want one of %s", o.status, listingNames())
	}
	if o.limit < 1 || o.limit > maxListLimit {
		return usagef("--limit is %d, it must be between 1 and %d", o.limit, maxListLimit)
	}
	return nil
}

// A page is what list prints.
type page struct {
	Table string      `json:"table"`
	Rows  []listedRow `json:"rows"`
	Next  string      `json:"next,omitempty"` // for --after; empty on the last page

	now     time.Time
	columns []column
}

type listedRow struct {
	row
	Position string `db:"position" json:"-"` // its values of the order, as a JSON array
}

func (d *database) list(ctx context.Context, t *workqueue.Table, o listOptions) (*page, error) {
	p := &page{Table: t.Name(), Rows: []listedRow{}}
	err := d.read(ctx, func(tx *sqlx.Tx) error {
		l, err := readLayout(ctx, tx, t.Spec())
		if err != nil {
			return err
		}
		q := listings[o.status].query(l)
		args := []any{o.limit + 1} // one more than shown tells whether there is a next page
		if o.after != "" {
			if args, err = q.resume(args, o); err != nil {
				return err
			}
		}
		p.columns = listed(t.Spec().Table, l.plain)
		if err := tx.GetContext(ctx, &p.now, "SELECT now()"); err != nil {
			return err
		}
		return tx.SelectContext(ctx, &p.Rows, q.text(o.after != ""), args...)
	})
	p.finish(o)
	return p, err
}

func (p *page) finish(o listOptions) {
	if len(p.Rows) > o.limit {
		p.Rows = p.Rows[:o.limit]
		p.Next = encodePosition(o.status, p.Rows[o.limit-1].Position)
	}
	for i := range p.Rows {
		p.Rows[i].utc()
	}
}

// A listQuery is a listing on one table.
type listQuery struct {
	listing
	layout layout
	keys   []column
}

func (l listing) query(table layout) listQuery {
	q := listQuery{listing: l, layout: table}
	if l.lanes {
		q.keys = slices.Clone(table.lanes)
	}
	q.keys = append(q.keys, l.order...)
	return q
}

// text is the statement. Its first parameter is the limit; with after, a position's values follow.
func (q listQuery) text(after bool) string {
	names, texts, params := make([]string, len(q.keys)), make([]string, len(q.keys)), make([]string, len(q.keys))
	for i, k := range q.keys {
		names[i] = "r." + k.quoted()
		texts[i] = names[i] + "::text"
		params[i] = fmt.Sprintf("$%d::text::%s", i+2, k.Type)
	}
	direction, beyond := "", ">"
	if q.down {
		direction, beyond = " DESC", "<"
	}
	where := q.where
	if after {
		where += fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(names, ", "), beyond, strings.Join(params, ", "))
	}
	return fmt.Sprintf("SELECT %s,\n\t%s AS columns,\n\tjson_build_array(%s)::text AS position\nFROM %s AS r\nWHERE %s\nORDER BY %s%s\nLIMIT $1",
		coreFields, q.layout.plainJSON(), strings.Join(texts, ", "), q.layout.table, where,
		strings.Join(names, direction+", "), direction)
}

// resume adds the values of --after to the arguments.
func (q listQuery) resume(args []any, o listOptions) ([]any, error) {
	status, values, err := decodePosition(o.after)
	if err != nil || len(values) != len(q.keys) {
		return nil, usagef("--after %q is no position of this table: take it from the page before", o.after)
	}
	if status != o.status {
		return nil, usagef("--after is a position among rows with --status %s", status)
	}
	for _, v := range values {
		args = append(args, v)
	}
	return args, nil
}

// A position is opaque to the user, and safe in a shell and in a URL.
func encodePosition(status, values string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(status + " " + values))
}

func decodePosition(position string) (status string, values []string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(position)
	if err != nil {
		return "", nil, err
	}
	status, encoded, _ := strings.Cut(string(text), " ")
	return status, values, json.Unmarshal([]byte(encoded), &values)
}

func (a *app) printPage(p *page, o listOptions) error {
	l := listings[o.status]
	header := []string{"ID", l.when, "ATTEMPTS"}
	for _, c := range p.columns {
		header = append(header, strings.ToUpper(cell(c.Name, cellWidth)))
	}
	g := newGrid(a.stdout, append(header, "LAST ERROR")...)
	for _, r := range p.Rows {
		cells := []string{r.ID.String(), stampOrDash(l.time(&r.row), p.now), fmt.Sprintf("%d/%d", r.Attempts, r.MaxAttempts)}
		for _, text := range r.cells(p.columns) {
			cells = append(cells, cell(text, cellWidth))
		}
		g.add(append(cells, lastError(r.row))...)
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	_, err := fmt.Fprintf(a.stderr, "txwork: there is more: --after %s\n", p.Next)
	return err
}

func lastError(r row) string {
	if r.LastError == nil {
		return "-"
	}
	return cell(*r.LastError, 2*cellWidth)
}
