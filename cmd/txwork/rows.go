package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/internal/sqltext"
	"github.com/txwork/txwork/workqueue"
)

// A row is one row of a domain table, as list and show read it.
type row struct {
	ID           uuid.UUID  `db:"id" json:"id"`
	Status       rowStatus  `db:"status" json:"status"`     // ready, in_progress, done or failed
	Attempts     int        `db:"attempts" json:"attempts"` // attempts begun so far
	MaxAttempts  int        `db:"max_attempts" json:"max_attempts"`
	Waiting      bool       `db:"waiting" json:"waiting"`                           // ready, but held back
	DueAt        time.Time  `db:"due_at" json:"due_at"`                             // when it may be claimed, or became due if it was claimed
	CreatedAt    time.Time  `db:"created_at" json:"created_at"`                     // when it was written
	LockedUntil  *time.Time `db:"locked_until" json:"locked_until,omitempty"`       // when the lease ends
	RunningFrom  *time.Time `db:"running_from" json:"running_since,omitempty"`      // in progress: when it was claimed; missing until its lease has been renewed
	RunsWithin   *float64   `db:"runs_within" json:"runs_within_seconds,omitempty"` // in progress: how long it may run; missing if nobody said
	LostAlone    int64      `db:"lost_alone" json:"lost_alone,omitempty"`           // leases that it lost while it was alone; from 2 on it may end its process
	LostTogether int64      `db:"lost_together" json:"lost_together,omitempty"`     // leases that it lost together with other rows of its process
	CompletedAt  *time.Time `db:"completed_at" json:"completed_at,omitempty"`       // when it ended
	FailedAt     *time.Time `db:"failed_at" json:"failed_at,omitempty"`             // when it became a dead letter or was cancelled
	CancelledAt  *time.Time `db:"cancelled_at" json:"cancelled_at,omitempty"`       // when its cancel was requested
	LastError    *string    `db:"last_error" json:"last_error,omitempty"`           // error of its last failed attempt
	Columns      document   `db:"columns" json:"columns"`                           // columns of the domain by name, without payloads
}

// coreFields selects the core's columns that row has.
var coreFields = `r.id, r.status, r.attempts, r.max_attempts, r.waiting, r.due_at, r.created_at, r.locked_until,
	r.completed_at, r.failed_at, r.cancelled_at, r.last_error, ` + runningFields

// runningFields selects what renewals and the reaper have recorded.
var runningFields = fmt.Sprintf("%s AS running_from, CASE WHEN r.status = 1 THEN %s END AS runs_within, "+
	"%s AS lost_alone, %s AS lost_together", sqltext.RunningSince("r"), sqltext.RunningWithin("r", "NULL"),
	sqltext.LostLeases("r", "alone"), sqltext.LostLeases("r", "together"))

// rowStatus is a status that JSON shows by name.
type rowStatus workqueue.Status

func (s rowStatus) String() string               { return workqueue.Status(s).String() }
func (s rowStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A document is JSON as the server wrote it.
type document string

// MarshalJSON implements [json.Marshaler].
func (d document) MarshalJSON() ([]byte, error) { return []byte(d), nil }

// utc makes all times UTC, whatever the session's time zone.
func (r *row) utc() {
	r.DueAt, r.CreatedAt = r.DueAt.UTC(), r.CreatedAt.UTC()
	for _, t := range []*time.Time{r.LockedUntil, r.RunningFrom, r.CompletedAt, r.FailedAt, r.CancelledAt} {
		if t != nil {
			*t = t.UTC()
		}
	}
}

// nameColumns are the columns whose values are names. These are shown in full, and so that no two look alike.
var nameColumns = append([]string{"topic", "kind", "queue", "consumer", "source", "schedule", "dedup_key"},
	keyColumns...)

// cells returns the values of the domain's columns as cells of a table.
func (r *row) cells(columns []column) []string {
	var values map[string]json.RawMessage
	json.Unmarshal([]byte(r.Columns), &values) // cannot fail: the server made the document
	cells := make([]string, len(columns))
	for i, c := range columns {
		raw := values[c.Name]
		var text string
		switch {
		case len(raw) == 0 || string(raw) == "null":
			cells[i] = "-"
		case json.Unmarshal(raw, &text) != nil:
			cells[i] = cell(string(raw), cellWidth)
		case slices.Contains(nameColumns, c.Name):
			cells[i] = named(text)
		default:
			cells[i] = cell(text, cellWidth)
		}
	}
	return cells
}

// A column is one of a table, or of an index.
type column struct {
	Name string `db:"name"`
	Type string `db:"type"`
}

func (c column) quoted() string { return pgx.Identifier{c.Name}.Sanitize() }

// payload tells whether a column's content is shown only on request. That is so for documents, whatever the column is
// called.
func (c column) payload() bool {
	return c.Name == "payload" || slices.Contains([]string{"bytea", "json", "jsonb", "xml"}, c.Type)
}

// coreColumns are the columns that every domain table has.
var coreColumns = []string{
	"id", "due_at", "created_at", "max_attempts", "attempts", "status", "waiting", "locked_until", "owner_token",
	"completed_at", "failed_at", "cancelled_at", "last_error", "headers", "retry",
}

// A layout is the columns of a table as the database has them, since the table's Spec is not known here.
type layout struct {
	table    string   // quoted and qualified
	plain    []column // the domain's columns without payloads
	payloads []column
	lanes    []column
}

func readLayout(ctx context.Context, tx *sqlx.Tx, spec workqueue.Spec) (layout, error) {
	l := layout{table: pgx.Identifier{spec.Schema, spec.Table}.Sanitize()}
	columns, err := readColumns(ctx, tx, l.table)
	if err != nil {
		return layout{}, err
	}
	for _, c := range columns {
		switch {
		case slices.Contains(coreColumns, c.Name):
		case c.payload():
			l.payloads = append(l.payloads, c)
		default:
			l.plain = append(l.plain, c)
		}
	}
	l.lanes, err = readLanes(ctx, tx, spec)
	return l, err
}

// readLanes returns the columns of the claim index except the last two, due_at and id.
func readLanes(ctx context.Context, tx *sqlx.Tx, spec workqueue.Spec) ([]column, error) {
	claim, err := readColumns(ctx, tx, pgx.Identifier{spec.Schema, spec.Table + "_claim_idx"}.Sanitize())
	return claim[:max(len(claim)-2, 0)], err
}

// readColumns lists the columns of a table or an index.
func readColumns(ctx context.Context, tx *sqlx.Tx, relation string) (columns []column, err error) {
	err = tx.SelectContext(ctx, &columns, `
		SELECT a.attname::text AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type
		FROM pg_catalog.pg_attribute AS a
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY a.attnum`, relation)
	return columns, err
}

// plainJSON selects the plain columns as one JSON object.
func (l layout) plainJSON() string {
	names := make([]string, len(l.plain))
	for i, c := range l.plain {
		names[i] = "r." + c.quoted()
	}
	return fmt.Sprintf("(SELECT row_to_json(d)::text FROM (SELECT %s) AS d)", strings.Join(names, ", "))
}
