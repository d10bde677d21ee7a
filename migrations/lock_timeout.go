package migrations

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// maxLockTimeout is what PostgreSQL's setting can hold, in whole days.
const maxLockTimeout = 24 * 24 * time.Hour

// holdersQuery lists the sessions that have locks in a schema.
//
//go:embed catalog/holders.sql
var holdersQuery string

// lockSetting is the server's own bound of a wait for a lock. The lock of the migrations themselves does not wait in
// the server.
func (m *Migrator) lockSetting() string {
	return fmt.Sprintf("lock_timeout = %d", m.lockTimeout.Milliseconds())
}

// explainLock adds to a lock timeout how long the wait was and for whom.
func (m *Migrator) explainLock(ctx context.Context, db *sql.DB, err error) error {
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" { // lock_not_available
		return err
	}
	var holders string
	if err := db.QueryRowContext(ctx, holdersQuery, m.schema).Scan(&holders); err != nil || holders == "" {
		holders = "who had it cannot be told any more"
	}
	return fmt.Errorf("a table was in use for more than %v (%s): nothing of this was done; try again when that has "+
		"ended, or with a longer lock timeout: %w",
		m.lockTimeout, holders, err)
}
