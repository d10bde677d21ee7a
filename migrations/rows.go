package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// TableRows is how many rows a table has, or how many values a column.
type TableRows struct {
	Table  string `json:"table"`            // without its schema; also the name of a sequence, which counts as one row
	Column string `json:"column,omitempty"` // column whose values other than its default are counted; missing: rows are
	Rows   int64  `json:"rows"`             // number of rows
}

// RowsAbove counts what [Migrator.DownTo] of a version would lose: the rows of the tables, and the values of the
// columns, that reverting the applied migrations above it drops or changes. A value that is the column's default is not
// lost. Tables without rows are not listed, nor are tables that a migration itself fills. It reads every such table.
func (m *Migrator) RowsAbove(ctx context.Context, version int64) ([]TableRows, error) {
	counts := []TableRows{}
	err := m.reading(ctx, func(tx *sql.Tx) error {
		losses, err := m.lossesAbove(ctx, tx, version)
		for i := 0; err == nil && i < len(losses); i++ {
			var n int64
			if n, err = m.count(ctx, tx, losses[i]); n > 0 {
				counts = append(counts, TableRows{losses[i].table, losses[i].column, n})
			}
		}
		return err
	})
	if err != nil {
		explained := err
		_ = m.reading(ctx, func(tx *sql.Tx) error { // the first transaction has failed
			explained = m.explainLock(ctx, tx, err)
			return nil
		})
		return nil, m.failed("count the rows", explained)
	}
	return counts, nil
}

func (m *Migrator) lossesAbove(ctx context.Context, tx *sql.Tx, version int64) (all []loss, err error) {
	has, err := m.history.state(ctx, tx)
	if err != nil {
		return nil, err
	}
	chosen, err := m.removable(has)
	for _, known := range has.applied(chosen) {
		if known.version <= version || err != nil {
			continue
		}
		var losses []loss
		losses, err = known.losses()
		all = append(all, losses...)
	}
	tables := slices.Clone(all)
	return slices.DeleteFunc(all, func(l loss) bool { // the rows of the table are counted
		return l.is == ofColumn && slices.Contains(tables, loss{table: l.table})
	}), err
}

// columnDefault returns the default of a column, as an expression, if the column exists and has values of its own.
//
//go:embed catalog/column_default.sql
var columnDefault string

// count returns how many rows or values there are, and 0 if the table or column does not exist.
func (m *Migrator) count(ctx context.Context, tx *sql.Tx, l loss) (n int64, err error) {
	name := pgx.Identifier{m.schema, l.table}.Sanitize()
	var exists bool
	if err := tx.QueryRowContext(ctx, "SELECT to_regclass($1::text) IS NOT NULL", name).Scan(&exists); err != nil ||
		!exists {
		return 0, err
	}
	query := "SELECT count(*) FROM " + name
	switch l.is {
	case ofSequence:
		query = "SELECT is_called::integer FROM " + name
	case ofColumn:
		var expression string
		err := tx.QueryRowContext(ctx, columnDefault, name, l.column).Scan(&expression)
		if err != nil {
			return 0, ignoreNoRows(err)
		}
		column := pgx.Identifier{l.column}.Sanitize()
		query += fmt.Sprintf(" WHERE %s::text IS DISTINCT FROM (%s)::text", column, expression)
	}
	err = tx.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func ignoreNoRows(err error) error {
	if err == sql.ErrNoRows {
		return nil
	}
	return err
}
