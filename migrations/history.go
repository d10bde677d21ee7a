package migrations

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// history is the schema's table of versions as goose uses it. goose's own store quotes nothing when it
// looks for the table, and makes it with times that have no zone.
type history struct {
	database.Store
	domainTable string
	create      string  // of both tables
	only        []int64 // the versions that goose is to see, nil: all
}

// of is the history of some migrations alone: goose refuses versions that it knows no file of, and files that are older
// than the newest version, which those of a domain that is added later are.
func (h history) of(chosen []migration) history {
	h.only = []int64{0} // goose's mark of a table that was set up
	for _, m := range chosen {
		h.only = append(h.only, m.version)
	}
	return h
}

// ListMigrations is what goose asks before it goes up or down, the newest first.
func (h history) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	all, err := h.Store.ListMigrations(ctx, db)
	return slices.DeleteFunc(all, func(r *database.ListMigrationsResult) bool {
		return h.only != nil && !slices.Contains(h.only, r.Version)
	}), err
}

func newHistory(schema string) (history, error) {
	store, err := database.NewStore(goose.DialectPostgres, versionTableName(schema))
	return history{Store: store, domainTable: domainTableName(schema), create: render("version_table.sql", schema)}, err
}

// TableExists is what goose asks before anything else.
func (h history) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT to_regclass($1::text) IS NOT NULL", h.Tablename()).Scan(&exists)
	return exists, err
}

// CreateVersionTable makes the table.
func (h history) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, h.create)
	return err
}

// A state is what a schema records of itself.
type state struct {
	entries []entry  // the applied migrations in the order of their versions
	domains []Domain // that it is to have
}

// An entry is a migration that was applied.
type entry struct {
	version int64
	at      time.Time
}

// state reads what is recorded; nothing where there is no table.
func (h history) state(ctx context.Context, db *sql.DB) (s state, err error) {
	if exists, err := h.TableExists(ctx, db); err != nil || !exists {
		return state{}, err
	}
	s.entries, err = list(ctx, db, "SELECT version_id, tstamp FROM "+h.Tablename()+
		" WHERE version_id > 0 AND is_applied ORDER BY version_id", func(row *sql.Rows) (e entry, err error) {
		return e, row.Scan(&e.version, &e.at)
	})
	if err != nil {
		return state{}, err
	}
	s.domains, err = list(ctx, db, "SELECT name FROM "+h.domainTable, func(row *sql.Rows) (d Domain, err error) {
		return d, row.Scan(&d)
	})
	return s, err
}

func list[T any](ctx context.Context, db *sql.DB, query string, scan func(*sql.Rows) (T, error)) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
