package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/spf13/cobra"

	"github.com/txwork/txwork/workqueue"
)

const (
	defaultListLimit = 50

	// maxListLimit bounds what is held in memory at once. To read more, --after continues where the page ended.
	maxListLimit = 10_000

	// cellWidth keeps each row on one line.
	cellWidth = 40
)

// A listing is the rows of one state in an order that an index provides, so that a page costs the same however large
// the table is.
type listing struct {
	where string
	order []column // without the lanes, which lead the index
	lanes bool
	down  bool // newest first
	when  string
	time  func(*row) *time.Time
	runs  bool   // the rows are in progress
	since string // the column that says since when a row has been in the state; empty for created_at
}

// deadLetters are failed rows that were not cancelled.
var deadLetters = listing{where: "r.failed_at IS NOT NULL AND r.cancelled_at IS NULL", order: failOrder,
	since: "failed_at"}

var (
	claimOrder = []column{{"due_at", "timestamptz"}, {"id", "uuid"}}
	dueAt      = func(r *row) *time.Time { return &r.DueAt }
	failOrder  = []column{{"failed_at", "timestamptz"}, {"id", "uuid"}}
	lockedAt   = func(r *row) *time.Time { return r.LockedUntil }
)

// listings are the states that can be listed: those of the core, and those that stats counts separately. A row in
// progress was due when it was claimed and still is, so a condition on due_at spares the listing the rows that are due
// later.
var listings = map[string]listing{
	"ready": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at <= now()",
		order: claimOrder, lanes: true, when: "DUE", time: dueAt},
	"scheduled": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at > now()",
		order: claimOrder, lanes: true, when: "DUE", time: dueAt},
	"waiting": {where: "r.completed_at IS NULL AND r.waiting", order: []column{{"id", "uuid"}}, when: "DUE",
		time: dueAt},
	"in_progress": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now()",
		order: claimOrder, lanes: true, when: "LEASE ENDS", time: lockedAt, runs: true},
	"expired": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 1 AND r.due_at <= now() AND " +
		"r.locked_until < now()",
		order: claimOrder, lanes: true, when: "LEASE ENDED", time: lockedAt, runs: true},
	"done": {where: "r.completed_at IS NOT NULL AND r.failed_at IS NULL",
		order: []column{{"completed_at", "timestamptz"}, {"id", "uuid"}}, down: true, when: "DONE",
		time: func(r *row) *time.Time { return r.CompletedAt }, since: "completed_at"},
	"failed": {where: deadLetters.where, order: failOrder, down: true, when: "FAILED",
		time: func(r *row) *time.Time { return r.FailedAt }, since: "failed_at"},
	"cancelled": {where: "r.failed_at IS NOT NULL AND r.cancelled_at IS NOT NULL", order: failOrder, down: true,
		when: "CANCELLED", time: func(r *row) *time.Time { return r.FailedAt }, since: "failed_at"},
}

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
	status string
	limit  int
	after  string
	json   bool
	filter filter
}

func newListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := newCommand("list TABLE --status STATUS", "List the rows of a table in one state", cobra.ExactArgs(1))
	flags := cmd.Flags()
	flags.StringVar(&o.status, "status", "", "`state` of the rows: "+listingNames())
	flags.IntVar(&o.limit, "limit", defaultListLimit, "rows of a page")
	flags.StringVar(&o.after, "after", "", "continue after this `position`, the last of the previous page")
	jsonVar(flags, &o.json, jsonUsage, page{})
	o.filter.addFlags(flags)
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
	if err := checkLimit(o.limit); err != nil {
		return err
	}
	return o.filter.check()
}

// A page is what list prints.
type page struct {
	Table   string      `json:"table"`             // with its schema
	Rows    []listedRow `json:"rows"`              // in the order of claiming, or the newest first if they have ended
	Next    string      `json:"next,omitempty"`    // for --after; missing on the last page
	Partial bool        `json:"partial,omitempty"` // row-level security hides rows from the role, so there may be more

	now     time.Time
	columns []column
}

type listedRow struct {
	row
	Position string `db:"position" json:"-"` // its values of the order, as a JSON array
}

func (d *database) list(ctx context.Context, t *workqueue.Table, o listOptions) (*page, error) {
	if o.filter.given() {
		return d.listFiltered(ctx, t, o)
	}
	p := &page{Table: t.Name(), Rows: []listedRow{}, Partial: d.partial}
	err := d.read(ctx, func(tx *sqlx.Tx) error {
		l, err := readLayout(ctx, tx, t.Spec())
		if err != nil {
			return err
		}
		q := listings[o.status].query(l)
		args := []any{o.limit + 1} // one more row than is shown reveals whether there is a next page
		if o.after != "" {
			values, err := q.resume(o)
			if err != nil {
				return err
			}
			for _, v := range values {
				args = append(args, v)
			}
		}
		return p.read(ctx, tx, t, q, q.text(o.after != ""), args...)
	})
	p.finish(o)
	return p, err
}

// read reads the rows that a statement selects.
func (p *page) read(ctx context.Context, tx *sqlx.Tx, t *workqueue.Table, q listQuery, text string, args ...any) error {
	p.columns = listed(t.Spec().Table, q.layout.plain)
	if err := tx.GetContext(ctx, &p.now, "SELECT now()"); err != nil {
		return err
	}
	return tx.SelectContext(ctx, &p.Rows, text, args...)
}

// listFiltered first finds the page's rows, examining a bounded number of rows in each statement, and then reads them.
func (d *database) listFiltered(ctx context.Context, t *workqueue.Table, o listOptions) (*page, error) {
	p := &page{Table: t.Name(), Rows: []listedRow{}, Partial: d.partial}
	s, err := d.newScan(ctx, t, listings[o.status], o.filter)
	if err != nil {
		return p, err
	}
	if o.after != "" {
		if s.after, err = s.query.resume(o); err != nil {
			return p, err
		}
	}
	progress := d.app.newTally("looking", "rows", -1)
	defer progress.end()
	var ids []uuid.UUID
	for more := true; more && len(ids) <= o.limit; progress.set(int64(s.read)) {
		var found []foundPlace
		if found, more, err = s.next(ctx); err != nil {
			return p, err
		}
		for _, f := range found {
			ids = append(ids, f.ID)
		}
	}
	ids = ids[:min(len(ids), o.limit+1)]
	err = d.read(ctx, func(tx *sqlx.Tx) error {
		text := fmt.Sprintf("SELECT %s FROM %s AS r WHERE r.id = ANY ($1::uuid[]) AND %s ORDER BY %s", s.query.fields(),
			s.query.layout.table, s.query.where, s.query.ordering())
		return p.read(ctx, tx, t, s.query, text, ids)
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

// text returns the statement that reads a page.
func (q listQuery) text(after bool) string {
	return q.selecting(q.fields(), after)
}

func (q listQuery) fields() string {
	return fmt.Sprintf("%s,\n\t%s AS columns,\n\tjson_build_array(%s)::text AS position", coreFields,
		q.layout.plainJSON(), q.position())
}

// selecting returns a statement that selects fields of the listing's rows. Its first parameter is the limit; if after
// is true, the values of a position follow.
func (q listQuery) selecting(fields string, after bool) string {
	names, params := make([]string, len(q.keys)), make([]string, len(q.keys))
	for i, k := range q.keys {
		names[i] = "r." + k.quoted()
		params[i] = fmt.Sprintf("$%d::text::%s", i+2, k.Type)
	}
	where, beyond := q.where, ">"
	if q.down {
		beyond = "<"
	}
	if after {
		where += fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(names, ", "), beyond, strings.Join(params, ", "))
	}
	return fmt.Sprintf("SELECT %s\nFROM %s AS r\nWHERE %s\nORDER BY %s\nLIMIT $1", fields, q.layout.table, where,
		q.ordering())
}

func (q listQuery) ordering() string {
	names := make([]string, len(q.keys))
	for i, k := range q.keys {
		names[i] = "r." + k.quoted()
		if q.down {
			names[i] += " DESC"
		}
	}
	return strings.Join(names, ", ")
}

// resume returns the position that --after names.
func (q listQuery) resume(o listOptions) ([]string, error) {
	status, values, err := decodePosition(o.after)
	if err != nil || len(values) != len(q.keys) {
		return nil, usagef("--after %q is no position of this table: take it from the page before", o.after)
	}
	if status != o.status {
		return nil, usagef("--after is a position among rows with --status %s", status)
	}
	return values, nil
}

// encodePosition makes a position that is opaque to the user and safe in a shell and in a URL.
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
	if l.runs {
		header = append(header, "RUNNING SINCE")
	}
	for _, c := range p.columns {
		header = append(header, strings.ToUpper(named(c.Name)))
	}
	g := newGrid(a.stdout, append(header, "LAST ERROR")...)
	for _, r := range p.Rows {
		cells := []string{r.ID.String(), stampOrDash(l.time(&r.row), p.now), fmt.Sprintf("%d/%d", r.Attempts,
			r.MaxAttempts)}
		if l.runs {
			cells = append(cells, stampOrDash(r.RunningFrom, p.now))
		}
		g.add(append(append(cells, r.cells(p.columns)...), lastError(r.row))...)
	}
	if err := g.flush(); err != nil || p.Next == "" {
		return err
	}
	return a.hintMore(p.Next)
}

func lastError(r row) string {
	if r.LastError == nil {
		return "-"
	}
	return cell(*r.LastError, 2*cellWidth)
}
