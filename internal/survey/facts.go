package survey

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/sqltext"
)

const (
	// MaxLanes is how many combinations of lanes are read in each table.
	MaxLanes = 100

	// RunningRows is how many due rows are read of a table to find those in progress, which older rows that are ready
	// could hide. No index knows the state of a row, because a claim would then have to write to it.
	RunningRows = 10_000

	// leastShare is how many rows are read of each lane at least.
	leastShare = 20
)

// Facts are what the catalog and the statistics say about a table of the core.
type Facts struct {
	Schema string

	Name                 string
	Filtered             bool // row-level security hides rows of it, or of a table that belongs to it
	Secured              bool // it has row-level security, and has had rows
	Columns              []string
	LaneNames, LaneTypes []string // columns whose values a claim names
	Retention            *float64
	Live                 float64 // rows in the claim index, as estimated by the last vacuum or analyze
	Indexed              bool    // it has a valid claim index
	Options              []string
	Dead                 int64   // rows, as estimated by the statistics
	Threshold            float64 // number of dead rows that triggers autovacuum
	Vacuumed             *float64
	Vacuuming            bool
	Bytes                int64
	Deletes              bool  // rows are deleted when they are done
	Deleted              int64 // deleted rows since the statistics were reset

	HeadRows int // how many rows are read at the heads of all lanes together
	LaneRows int // how many rows are read at the head of each lane; 0 for an equal share of HeadRows
	DueRows  int // how many due rows are read to find those in progress; 0 for [RunningRows]
}

// Tables returns the txwork tables of a schema, or those with the given names. In each, at most headRows rows are read
// at the heads of the lanes.
func Tables(ctx context.Context, tx pgx.Tx, schema string, headRows int, names ...string) ([]Facts, error) {
	found, err := tx.Query(ctx, sqltext.Statement(templates, "tables", nil), schema, names)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (Facts, error) {
		f := Facts{Schema: schema, HeadRows: headRows}
		err := row.Scan(&f.Name, &f.Filtered, &f.Secured, &f.Columns, &f.LaneNames,
			&f.LaneTypes, &f.Retention, &f.Live, &f.Indexed,
			&f.Options, &f.Dead, &f.Threshold, &f.Vacuumed, &f.Vacuuming, &f.Bytes, &f.Deletes, &f.Deleted)
		return f, err
	})
}

// Has tells whether the table has a column.
func (f *Facts) Has(column string) bool { return slices.Contains(f.Columns, column) }

// LabelName is the column that says what a row is about: kind or topic; empty if it has neither.
func (f *Facts) LabelName() string {
	for _, column := range []string{"kind", "topic"} {
		if f.Has(column) {
			return column
		}
	}
	return ""
}

// Schedule tells whether the table holds schedules.
func (f *Facts) Schedule() bool { return f.Has("next_at") && f.Has("expr") }

// The following methods are called by the templates.

// Table is the qualified name.
func (f *Facts) Table() string { return pgx.Identifier{f.Schema, f.Name}.Sanitize() }

// Q returns the qualified name of an object that belongs to the table.
func (f *Facts) Q(suffix string) string { return pgx.Identifier{f.Schema, f.Name + suffix}.Sanitize() }

// A Lane is one of the columns whose values a claim names.
type Lane struct{ Quoted, Alias, Type string }

// WaitsForKey and Released are the conditions of rows with a place that wait for their key or not, as the indexes by
// key have them. Rows that are set aside because of their topic have been released.
func (f *Facts) WaitsForKey() string {
	if f.Has("aside") {
		return "r.waiting AND r.aside IS NULL"
	}
	return "r.waiting"
}

// Released is the opposite of WaitsForKey.
func (f *Facts) Released() string {
	if f.Has("aside") {
		return "NOT r.waiting OR r.aside IS NOT NULL"
	}
	return "NOT r.waiting"
}

// Lanes returns the columns whose values a claim names.
func (f *Facts) Lanes() (all []Lane) {
	for i, name := range f.LaneNames {
		lane := Lane{Quoted: pgx.Identifier{name}.Sanitize(), Alias: fmt.Sprintf("c%d", i)}
		if i < len(f.LaneTypes) {
			lane.Type = f.LaneTypes[i]
		}
		all = append(all, lane)
	}
	return all
}

// Label is an SQL expression for what a row r is about.
func (f *Facts) Label() string {
	if l := f.LabelName(); l != "" {
		return "r." + pgx.Identifier{l}.Sanitize() + "::text"
	}
	return "''"
}

// Subscription is an SQL expression for the subscription that a row r is for; it is empty in tables that have none.
func (f *Facts) Subscription() string {
	if f.Has("subscription") {
		return "coalesce(r.subscription::text, '')"
	}
	return "''"
}

// RunningFor is an SQL expression: for how many seconds a row in progress has run, NULL if that is not known.
func (f *Facts) RunningFor(row string) string { return sqltext.RunningFor(row) }

// RunningWithin is an SQL expression: for how many seconds a row may run, NULL for ever.
func (f *Facts) RunningWithin(row, byDefault string) string {
	return sqltext.RunningWithin(row, byDefault)
}

// Lost is an SQL expression: how many leases a row has lost, alone or together with others.
func (f *Facts) Lost(row, how string) string { return sqltext.LostLeases(row, how) }

// MaxLanes is how many combinations of lanes are read.
func (f *Facts) MaxLanes() int { return MaxLanes }

// MaxHead is how many rows are read at the heads of all lanes together.
func (f *Facts) MaxHead() int { return f.HeadRows }

// LeastShare is how many of them are read of each lane at least.
func (f *Facts) LeastShare() int { return leastShare }

// MaxRunning is how many due rows are read of all lanes together to find rows in progress.
func (f *Facts) MaxRunning() int { return max(cmp.Or(f.DueRows, RunningRows), f.HeadRows) }
