package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3/database"
)

// maxLockTimeout is the largest number of whole days that PostgreSQL's setting can hold.
const maxLockTimeout = 24 * 24 * time.Hour

// holdersQuery lists the sessions that have locks in a schema.
//
//go:embed catalog/holders.sql
var holdersQuery string

// lockSetting is the PostgreSQL setting that bounds waits for locks of tables. The migrators' own advisory lock is not
// affected, because it does not wait in the server.
func (m *Migrator) lockSetting() string { return "lock_timeout = " + m.lockMillis() }

func (m *Migrator) lockMillis() string { return strconv.FormatInt(m.lockTimeout.Milliseconds(), 10) }

// explainLock adds to a lock timeout how long the wait was, and which sessions hold locks.
func (m *Migrator) explainLock(ctx context.Context, db database.DBTxConn, err error) error {
	if pg := new(pgconn.PgError); !errors.As(err, &pg) || pg.Code != "55P03" { // lock_not_available
		return err
	}
	var holders string
	if err := db.QueryRowContext(ctx, holdersQuery, m.schema).Scan(&holders); err != nil || holders == "" {
		holders = "by which session is unknown"
	}
	return fmt.Errorf("a table was in use for more than %v (%s): nothing of this was done; try again when that has "+
		"ended, or with a longer lock timeout: %w",
		m.lockTimeout, holders, err)
}
