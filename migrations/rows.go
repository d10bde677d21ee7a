package migrations

import (
	"context"
	"database/sql"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"
)

// TableRows is how many rows a table has.
type TableRows struct {
	Table string `json:"table"` // without its schema
	Rows  int64  `json:"rows"`  // number of rows
}

// RowsAbove counts the rows that [Migrator.DownTo] of a version would drop: those of the tables that the applied
// migrations above it created. Tables without rows are not listed, nor are tables that a migration itself fills. It
// reads every such table.
func (m *Migrator) RowsAbove(ctx context.Context, version int64) ([]TableRows, error) {
	counts := []TableRows{}
	err := m.reading(ctx, func(tx *sql.Tx) error {
		tables, err := m.tablesAbove(ctx, tx, version)
		for i := 0; err == nil && i < len(tables); i++ {
			var n int64
			if n, err = m.count(ctx, tx, tables[i]); n > 0 {
				counts = append(counts, TableRows{tables[i], n})
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

func (m *Migrator) tablesAbove(ctx context.Context, tx *sql.Tx, version int64) (tables []string, err error) {
	has, err := m.history.state(ctx, tx)
	if err != nil {
		return nil, err
	}
	chosen, err := m.removable(has)
	for _, known := range has.applied(chosen) {
		if known.version > version {
			tables = append(tables, known.tables()...)
		}
	}
	return tables, err
}

// count returns the number of rows of a table, and 0 if the table does not exist.
func (m *Migrator) count(ctx context.Context, tx *sql.Tx, table string) (n int64, err error) {
	name := pgx.Identifier{m.schema, table}.Sanitize()
	var exists bool
	if err := tx.QueryRowContext(ctx, "SELECT to_regclass($1::text) IS NOT NULL", name).Scan(&exists); err != nil ||
		!exists {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT count(*) FROM "+name).Scan(&n)
	return n, err
}

var (
	madeTable   = regexp.MustCompile(`(?m)^CREATE TABLE "[^"]+"\."([^"]+)"`)
	filledTable = regexp.MustCompile(`(?m)^INSERT INTO "[^"]+"\."([^"]+)"`)
)

// tables returns the tables that a migration creates and does not fill.
func (m migration) tables() (names []string) {
	filled := filledTable.FindAllStringSubmatch(m.up, -1)
	for _, made := range madeTable.FindAllStringSubmatch(m.up, -1) {
		if !slices.ContainsFunc(filled, func(f []string) bool { return f[1] == made[1] }) {
			names = append(names, made[1])
		}
	}
	return names
}
