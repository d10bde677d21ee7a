package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A Column is one of a table, or of an index.
type Column struct {
	Name string `db:"name"`
	Type string `db:"type"`
}

// Quoted returns the name as SQL has it.
func (c Column) Quoted() string { return pgx.Identifier{c.Name}.Sanitize() }

// payload tells whether a column's content is shown only on request. That is so for documents, whatever the column is
// called.
func (c Column) payload() bool {
	return c.Name == "payload" || slices.Contains([]string{"bytea", "json", "jsonb", "xml"}, c.Type)
}

// sized are the types whose values have few bytes.
var sized = []string{"uuid", "boolean", "smallint", "integer", "bigint", "real", "double precision", "date", "interval",
	"timestamp with time zone", "timestamp without time zone", "time without time zone", "inet", "cidr"}

// unbounded tells whether a value may be long, and is no plain text: an array, for example.
func (c Column) unbounded() bool { return !slices.Contains(sized, c.Type) }

// coreColumns are the columns that every domain table has.
var coreColumns = []string{
	"id", "due_at", "created_at", "max_attempts", "attempts", "status", "waiting", "locked_until", "owner_token",
	"completed_at", "failed_at", "cancelled_at", "last_error", "headers", "retry",
}

// A Layout is the columns of a table as the database has them, since the table's Spec is not known here.
type Layout struct {
	Table    string   // quoted and qualified
	Plain    []Column // the domain's columns without payloads
	Payloads []Column
	lanes    []Column
}

// ReadLayout reads the columns of a table. All other fields of the Spec may be missing.
func ReadLayout(ctx context.Context, tx pgx.Tx, spec workqueue.Spec) (Layout, error) {
	l := Layout{Table: pgx.Identifier{spec.Schema, spec.Table}.Sanitize()}
	columns, err := readColumns(ctx, tx, l.Table)
	if err != nil {
		return Layout{}, err
	}
	for _, c := range columns {
		switch {
		case slices.Contains(coreColumns, c.Name):
		case c.payload():
			l.Payloads = append(l.Payloads, c)
		default:
			l.Plain = append(l.Plain, c)
		}
	}
	l.lanes, err = readLanes(ctx, tx, spec)
	return l, err
}

// readLanes returns the columns of the claim index except the last two, due_at and id.
func readLanes(ctx context.Context, tx pgx.Tx, spec workqueue.Spec) ([]Column, error) {
	claim, err := readColumns(ctx, tx, pgx.Identifier{spec.Schema, spec.Table + "_claim_idx"}.Sanitize())
	return claim[:max(len(claim)-2, 0)], err
}

// readColumns lists the columns of a table or an index.
func readColumns(ctx context.Context, tx pgx.Tx, relation string) ([]Column, error) {
	return structs[Column](ctx, tx, `
		SELECT a.attname::text AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type
		FROM pg_catalog.pg_attribute AS a
		WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY a.attnum`, relation)
}

// plainJSON selects the plain columns as one JSON object.
func (l Layout) plainJSON() string {
	names := make([]string, len(l.Plain))
	for i, c := range l.Plain {
		names[i] = "r." + c.Quoted()
		switch {
		case c.Type == "text" || strings.HasPrefix(c.Type, "character"):
			names[i] = bounded(names[i], maxText) + " AS " + c.Quoted()
		case c.unbounded():
			whole := names[i] + "::text"
			names[i] = fmt.Sprintf("CASE WHEN octet_length(%s) > %d THEN to_json(%s) ELSE to_json(%s) END AS %s",
				whole, maxText, bounded(whole, maxText), names[i], c.Quoted())
		}
	}
	return fmt.Sprintf("(SELECT row_to_json(d)::text FROM (SELECT %s) AS d)", strings.Join(names, ", "))
}

// Has tells whether the domain's part of the table has the column.
func (l Layout) Has(name string) bool {
	return slices.ContainsFunc(l.Plain, func(c Column) bool { return c.Name == name })
}
