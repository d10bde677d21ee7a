package migrations

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// history is the schema's table of versions as goose uses it. goose's own store quotes nothing when it
// looks for the table, and makes it with times that have no zone.
type history struct {
	database.Store
	create string
}

func newHistory(schema string) (history, error) {
	store, err := database.NewStore(goose.DialectPostgres, versionTableName(schema))
	return history{Store: store, create: render("version_table.sql", schema)}, err
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

// An entry is a migration that was applied.
type entry struct {
	version int64
	at      time.Time
}

// entries are the applied migrations in the order of their versions; none where there is no table.
func (h history) entries(ctx context.Context, db *sql.DB) (entries []entry, err error) {
	if exists, err := h.TableExists(ctx, db); err != nil || !exists {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, tstamp FROM "+h.Tablename()+
		" WHERE version_id > 0 AND is_applied ORDER BY version_id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.version, &e.at); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
