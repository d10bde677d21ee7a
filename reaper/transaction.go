package reaper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue"
)

// transactionTimeout bounds the waits that the server's own limits, in limits.sql, do not: for a connection of the
// pool, and for a server that has disappeared without closing its connections.
const transactionTimeout = 90 * time.Second

// maxLockWait bounds how long a batch waits for a table that another session has locked exclusively. With a short lease
// the wait is shorter, so that it does not cost the leadership.
const maxLockWait = 5 * time.Second

// connections is implemented by a pool and by a runtime.
type connections interface {
	AcquireFunc(ctx context.Context, f func(*pgxpool.Conn) error) error
}

// transaction runs work in a short transaction. It is READ COMMITTED whatever the session's default, because elections
// and guards have to see the newest version of a row. The server ends the transaction if it is idle for longer than the
// lease. The work runs again if concurrent DDL made a cached plan invalid.
func transaction(ctx context.Context, pool connections, lease time.Duration, work func(context.Context,
	pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	return postgres.Renewed(func() error {
		return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return transactionOn(ctx, conn, lease, work) })
	})
}

func transactionOn(ctx context.Context, conn *pgxpool.Conn, lease time.Duration, work func(context.Context,
	pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	err := explain(pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitsText, milliseconds(lease),
			milliseconds(min(maxLockWait, lease/3))); err != nil {
			return err
		}
		return work(ctx, tx)
	}))
	if errors.Is(err, workqueue.ErrReadOnly) {
		// After a failover only a new connection finds the new primary.
		_ = conn.Conn().Close(ctx)
	}
	return err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
