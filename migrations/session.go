package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// pinnedPath is the search_path of migrations. The names of txwork's own objects have their schema, so it is enough for
// everything else; a function, an operator or a type of the caller's schemas could otherwise become part of the schema.
const pinnedPath = "pg_catalog, pg_temp"

// session returns a single connection of the pool as the *sql.DB that goose needs. Close gives it back.
func (m *Migrator) session() *sql.DB {
	db := sql.OpenDB(sessions{stdlib.GetPoolConnector(m.pool), m.lockMillis()})
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1) // keeps the session, and with it the lock, from one statement to the next
	return db
}

// sessions opens the sessions of migrations, also a further one if the first breaks, and sets their search_path and the
// timeout for locks. A session goes back to the pool with the settings that it had.
type sessions struct {
	driver.Connector
	lockTimeout string
}

// Connect implements [driver.Connector]. A pooler would hand settings on to other clients, so a session that has
// another process id than the connection was told keeps its own, and is refused if its search_path does not fit.
func (s sessions) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	opened := &session{Conn: c.(*stdlib.Conn)}
	if err := opened.pin(ctx, s.lockTimeout); err != nil {
		opened.Conn.Close()
		return nil, err
	}
	return opened, nil
}

type session struct {
	*stdlib.Conn
	path, lockTimeout string // what they were
}

func (s *session) pin(ctx context.Context, lockTimeout string) error {
	conn := s.Conn.Conn()
	const text = `WITH b AS MATERIALIZED (
		SELECT pg_catalog.current_setting('search_path') AS path, pg_catalog.current_setting('lock_timeout') AS timeout
		WHERE pg_catalog.int4eq(pg_catalog.pg_backend_pid(), $3))
		SELECT b.path, b.timeout, ` + setBoth + ` FROM b`
	var discard string
	err := conn.QueryRow(ctx, text, pgx.QueryExecModeSimpleProtocol, pinnedPath, lockTimeout, conn.PgConn().PID()).
		Scan(&s.path, &s.lockTimeout, &discard, &discard)
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if _, err := conn.Exec(ctx, postgres.SelectFit, pgx.QueryExecModeSimpleProtocol); err != nil {
		return postgres.Sentinels{Session: workqueue.ErrSession}.Explain(err)
	}
	_, err = conn.Exec(ctx, "SET lock_timeout = "+lockTimeout, pgx.QueryExecModeSimpleProtocol)
	return err
}

const setBoth = "pg_catalog.set_config('search_path', $1, false), pg_catalog.set_config('lock_timeout', $2, false)"

// Close gives the session back to the pool.
func (s *session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	conn, err := s.Conn.Conn(), error(nil)
	if s.path == "" && s.lockTimeout == "" {
		_, err = conn.Exec(ctx, "RESET lock_timeout", pgx.QueryExecModeSimpleProtocol)
	} else {
		_, err = conn.Exec(ctx, "SELECT "+setBoth, pgx.QueryExecModeSimpleProtocol, s.path, s.lockTimeout)
	}
	if err != nil {
		conn.Close(ctx) // the pool discards it
	}
	return s.Conn.Close()
}

// reading runs do in a transaction that only reads, which may go through a pooler.
func (m *Migrator) reading(ctx context.Context, do func(*sql.Tx) error) error {
	db := stdlib.OpenDBFromPool(m.pool)
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, setting := range []string{"search_path = " + pinnedPath, m.lockSetting(), "jit = off"} {
		if _, err := tx.ExecContext(ctx, "SET LOCAL "+setting); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		tx.Rollback() // gives the connection back, which the pool may have no second one of
		return m.explainReading(ctx, err)
	}
	return nil
}
