package survey

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/internal/sqltext"
)

// MaxLanes is how many combinations of lanes are read of a table.
const MaxLanes = 100

// Facts are what the catalog and the statistics say of a table of the core.
type Facts struct {
	Schema string

	Name                 string
	Filtered             bool // by row-level security
	Columns              []string
	LaneNames, LaneTypes []string // columns that a claim names the values of
	Retention            *float64
	Live                 float64 // rows in the claim index, as estimated when that was last looked at
	Indexed              bool    // it has a valid claim index
	Options              []string
	Dead                 int64   // rows, as estimated by the statistics
	Threshold            float64 // dead rows at which autovacuum comes
	Vacuumed             *float64
	Vacuuming            bool
	Bytes                int64
	Deletes              bool  // what is done
	Deleted              int64 // rows, as counted since the statistics were reset

	HeadRows int // how many rows are read at the heads of all lanes together
}

// Tables are those of the core in a schema, of which so many rows are read at the heads of the lanes.
func Tables(ctx context.Context, tx pgx.Tx, schema string, headRows int) ([]Facts, error) {
	found, err := tx.Query(ctx, sqltext.Statement(templates, "tables", nil), schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (Facts, error) {
		f := Facts{Schema: schema, HeadRows: headRows}
		err := row.Scan(&f.Name, &f.Filtered, &f.Columns, &f.LaneNames, &f.LaneTypes, &f.Retention, &f.Live, &f.Indexed,
			&f.Options, &f.Dead, &f.Threshold, &f.Vacuumed, &f.Vacuuming, &f.Bytes, &f.Deletes, &f.Deleted)
		return f, err
	})
}

// Has tells whether the table has a column.
func (f *Facts) Has(column string) bool { return slices.Contains(f.Columns, column) }

// LabelName is the column that says what a row is about; empty without one.
func (f *Facts) LabelName() string {
	for _, column := range []string{"kind", "topic"} {
		if f.Has(column) {
			return column
		}
	}
	return ""
}

// Schedule tells a table of schedules.
func (f *Facts) Schedule() bool { return f.Has("next_at") && f.Has("expr") }

// What the templates see.

// Table is the qualified name.
func (f *Facts) Table() string { return pgx.Identifier{f.Schema, f.Name}.Sanitize() }

// Q is the qualified name of something that belongs to the table.
func (f *Facts) Q(suffix string) string { return pgx.Identifier{f.Schema, f.Name + suffix}.Sanitize() }

// Lane is one of the columns that a claim names the values of.
type Lane struct{ Quoted, Alias, Type string }

// Lanes are the columns that a claim names the values of.
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

// Label is an expression for what a row r is about.
func (f *Facts) Label() string {
	if l := f.LabelName(); l != "" {
		return "r." + pgx.Identifier{l}.Sanitize() + "::text"
	}
	return "''"
}

// MaxLanes is how many combinations of lanes are read.
func (f *Facts) MaxLanes() int { return MaxLanes }

// MaxHead is how many rows are read at the heads of all lanes together.
func (f *Facts) MaxHead() int { return f.HeadRows }
