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

// transactionTimeout ends what the server's own limits, in limits.sql, cannot: the wait for a connection
// of the pool, and for a server that is gone without a word.
const transactionTimeout = 90 * time.Second

// maxLockWait is as long as a batch waits for a table on which somebody holds an exclusive lock. It is
// shorter where the lease is: the wait must not cost the leadership.
const maxLockWait = 5 * time.Second

// connections are those of a pool or of a runtime.
type connections interface {
	AcquireFunc(ctx context.Context, f func(*pgxpool.Conn) error) error
}

// transaction runs work in a short transaction, READ COMMITTED whatever the session's default, because
// elections and guards see the newest version of a row only there. A transaction that is idle for longer
// than the lease is ended by the server. The work runs again where DDL has come in between.
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
		// After a failover the pool has to find the new primary; it does so with new connections only.
		_ = conn.Conn().Close(ctx)
	}
	return err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
