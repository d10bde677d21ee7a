package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// history is goose's store for the schema's table of versions. It replaces two methods of goose's own store, which does
// not quote the table's name when it looks for the table, and creates it with times without a zone.
type history struct {
	database.Store
	schema      string
	domainTable string
	create      string  // the DDL of the tables of versions and domains
	only        []int64 // the versions that goose may see; nil: all
}

// of limits the history to some migrations. goose refuses recorded versions for which it has no file, and files that
// are older than the newest recorded version, such as those of a domain that is added later.
func (h history) of(chosen []migration) history {
	h.only = []int64{0} // the version with which goose marks a new table
	for _, m := range chosen {
		h.only = append(h.only, m.version)
	}
	return h
}

// ListMigrations returns the recorded versions that goose may see, the newest first. goose calls it before it goes up
// or down.
func (h history) ListMigrations(ctx context.Context, db database.DBTxConn) ([]*database.ListMigrationsResult, error) {
	all, err := h.Store.ListMigrations(ctx, db)
	return slices.DeleteFunc(all, func(r *database.ListMigrationsResult) bool {
		return h.only != nil && !slices.Contains(h.only, r.Version)
	}), err
}

func newHistory(schema string) (history, error) {
	store, err := database.NewStore(goose.DialectPostgres, versionTableName(schema))
	return history{Store: store, schema: schema, domainTable: domainTableName(schema),
		create: render("version_table.sql", schema)}, err
}

// TableExists is called by goose before anything else.
func (h history) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT to_regclass($1::text) IS NOT NULL", h.Tablename()).Scan(&exists)
	return exists, err
}

// CreateVersionTable creates the table of versions, and the table of domains.
func (h history) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	_, err := db.ExecContext(ctx, h.create)
	return err
}

// A state is what a schema records about itself.
type state struct {
	versioned bool     // there is a table of versions
	entries   []entry  // the applied migrations in the order of their versions
	domains   []Domain // the domains that it is to have
	found     []Domain // if it records none, those of its tables
}

// An entry is a migration that was applied.
type entry struct {
	version int64
	at      time.Time
}

// state reads what is recorded. Nothing is if there is no table of versions.
func (h history) state(ctx context.Context, db database.DBTxConn) (s state, err error) {
	s.versioned, err = h.TableExists(ctx, db)
	if err != nil {
		return state{}, err
	}
	if !s.versioned {
		s.found, err = h.find(ctx, db)
		return s, err
	}
	s.entries, err = list(ctx, db, "SELECT version_id, tstamp FROM "+h.Tablename()+
		" WHERE version_id > 0 AND is_applied ORDER BY version_id", func(row *sql.Rows) (e entry, err error) {
		return e, row.Scan(&e.version, &e.at)
	})
	if err != nil {
		return state{}, h.damaged(err)
	}
	s.domains, err = list(ctx, db, "SELECT name FROM "+h.domainTable, func(row *sql.Rows) (d Domain, err error) {
		return d, row.Scan(&d)
	})
	if err == nil && len(s.domains) == 0 {
		s.found, err = h.find(ctx, db)
	}
	return s, h.damaged(err)
}

// damaged explains that the table of domains is missing. Nothing brings back a column of either table with its values.
func (h history) damaged(err error) error {
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "42P01" { // undefined_table
		return err
	}
	return fmt.Errorf("%w: what records the migrations is damaged: run the SQL that %s prints: %w",
		workqueue.ErrSchemaVersion, postgres.Command(h.schema, "migrate", "validate"), err)
}

// find returns the domains whose tables exist. A table of the same name that is not txwork's has no mark.
func (h history) find(ctx context.Context, db database.DBTxConn) (found []Domain, err error) {
	tables := domainTables()
	marked, err := listMarks(ctx, db, h.schema)
	for _, t := range marked {
		d := domainOf(t.table)
		if slices.Contains(tables, t.table) && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	return found, err
}

func list[T any](ctx context.Context, db database.DBTxConn, query string, scan func(*sql.Rows) (T, error),
	args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
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
