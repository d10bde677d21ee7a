package operate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Listing is the rows of one state in an order that an index provides, so that a page costs the same however large
// the table is.
type Listing struct {
	where string
	few   string   // what tells its rows from far more others in the index; empty if there are none
	order []Column // without the lanes, which lead the index
	lanes bool
	down  bool   // newest first
	since string // the column that says since when a row has been in the state; empty for created_at

	When string                // what Time is, as the head of a column
	Time func(*Row) *time.Time // the most relevant time of the state
	Runs bool                  // the rows are in progress
}

// DeadLetters are failed rows that were not cancelled.
var DeadLetters = Listing{where: "r.failed_at IS NOT NULL AND r.cancelled_at IS NULL", order: failOrder,
	since: "failed_at"}

var (
	claimOrder = []Column{{"due_at", "timestamptz"}, {"id", "uuid"}}
	dueAt      = func(r *Row) *time.Time { return &r.DueAt }
	doneOrder  = []Column{{"completed_at", "timestamptz"}, {"id", "uuid"}}
	failOrder  = []Column{{"failed_at", "timestamptz"}, {"id", "uuid"}}
	lockedAt   = func(r *Row) *time.Time { return r.LockedUntil }
)

// Listings are the states that can be listed: those of the core, and those that stats counts separately. A row in
// progress was due when it was claimed and still is, so a condition on due_at spares the listing the rows that are due
// later.
var Listings = map[string]Listing{
	"ready": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at <= now()",
		order: claimOrder, lanes: true, When: "DUE", Time: dueAt},
	"scheduled": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.status = 0 AND r.due_at > now()",
		order: claimOrder, lanes: true, When: "DUE", Time: dueAt},
	"waiting": {where: "r.completed_at IS NULL AND r.waiting", order: []Column{{"id", "uuid"}}, When: "DUE",
		Time: dueAt},
	"in_progress": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.due_at <= now()", few: "r.status = 1",
		order: claimOrder, lanes: true, When: "LEASE ENDS", Time: lockedAt, Runs: true},
	"expired": {where: "r.completed_at IS NULL AND NOT r.waiting AND r.due_at <= now()",
		few:   "r.status = 1 AND r.locked_until < now()",
		order: claimOrder, lanes: true, When: "LEASE ENDED", Time: lockedAt, Runs: true},
	"done": {where: "r.completed_at IS NOT NULL AND r.failed_at IS NULL",
		order: doneOrder, down: true, When: "DONE",
		Time: func(r *Row) *time.Time { return r.CompletedAt }, since: "completed_at"},
	"failed": {where: DeadLetters.where, order: failOrder, down: true, When: "FAILED",
		Time: func(r *Row) *time.Time { return r.FailedAt }, since: "failed_at"},
	"cancelled": {where: "r.failed_at IS NOT NULL", few: "r.cancelled_at IS NOT NULL", order: failOrder, down: true,
		When: "CANCELLED", Time: func(r *Row) *time.Time { return r.FailedAt }, since: "failed_at"},
}

// Ended are rows that are done or were cancelled.
var Ended = Listing{where: "r.completed_at IS NOT NULL AND (r.failed_at IS NULL OR r.cancelled_at IS NOT NULL)",
	order: doneOrder, since: "completed_at"}

// before returns those of the rows that the listing had at a moment, and has still, that have been in its state since
// before a time, as far as the index tells, oldest first.
func (l Listing) before(t, at time.Time) Listing {
	l.few = strings.ReplaceAll(l.few, "now()", moment(at))
	l.where = strings.ReplaceAll(l.where, "now()", moment(at)) +
		fmt.Sprintf(" AND r.%s <= %s", l.sinceColumn(), moment(t))
	l.down = false
	return l
}

// has is the condition of its rows.
func (l Listing) has() string {
	if l.few == "" {
		return l.where
	}
	return l.where + " AND " + l.few
}

// moment writes a time as SQL has it.
func moment(t time.Time) string {
	return "timestamptz '" + t.UTC().Format("2006-01-02T15:04:05.999999Z") + "'"
}

// sinceColumn says since when a row has been in the state, as far as a column does.
func (l Listing) sinceColumn() string { return cmp.Or(l.since, "created_at") }

// A listQuery is a listing on one table.
type listQuery struct {
	Listing
	layout Layout
	keys   []Column
	found  []string // see byKey
}

func (l Listing) query(table Layout) listQuery {
	q := listQuery{Listing: l, layout: table}
	if l.lanes {
		q.keys = slices.Clone(table.lanes)
	}
	q.keys = append(q.keys, l.order...)
	return q
}

// text returns the statement that reads a page.
func (q listQuery) text(after bool) string {
	return q.selecting(q.fields(), "", after)
}

func (q listQuery) fields() string {
	return fmt.Sprintf("%s,\n\t%s AS columns,\n\tjson_build_array(%s)::text AS position", coreFields,
		q.layout.plainJSON(), q.position())
}

// selecting returns a statement that selects fields of the listing's rows within bounds, which are further conditions.
// Its first parameter is the limit; if after is true, the values of a position follow.
func (q listQuery) selecting(fields, bounds string, after bool) string {
	names, params := make([]string, len(q.keys)), make([]string, len(q.keys))
	for i, k := range q.keys {
		names[i] = "r." + k.Quoted()
		params[i] = fmt.Sprintf("$%d::text::%s", i+2, k.Type)
	}
	where, beyond := q.where+bounds, ">"
	if q.down {
		beyond = "<"
	}
	if after {
		where += fmt.Sprintf(" AND (%s) %s (%s)", strings.Join(names, ", "), beyond, strings.Join(params, ", "))
	}
	return fmt.Sprintf("SELECT %s\nFROM %s AS r\nWHERE %s\nORDER BY %s\nLIMIT $1", fields, q.layout.Table, where,
		q.ordering())
}

func (q listQuery) ordering() string {
	names := make([]string, len(q.keys))
	for i, k := range q.keys {
		names[i] = "r." + k.Quoted()
		if q.down {
			names[i] += " DESC"
		}
	}
	return strings.Join(names, ", ")
}
