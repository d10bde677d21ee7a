package demo

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// A transaction is what the application needs from each of the supported libraries.
type transaction interface {
	exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
	outbox() workqueue.Tx
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}

type begin func(context.Context) (transaction, error)

const ways = 3

// ways are the libraries; each makes a third of the transfers. READ COMMITTED is explicit because a stricter default on
// the user's server would require transfers to be retried.
func (b *bank) ways() [ways]begin {
	return [ways]begin{
		func(ctx context.Context) (transaction, error) {
			tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
			return pgxTransaction{tx}, err
		},
		func(ctx context.Context) (transaction, error) {
			tx, err := b.sql.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			return sqlTransaction{tx}, err
		},
		func(ctx context.Context) (transaction, error) {
			tx, err := b.sqlx.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			return sqlTransaction{tx}, err
		},
	}
}

type pgxTransaction struct{ tx pgx.Tx }

func (t pgxTransaction) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (t pgxTransaction) outbox() workqueue.Tx               { return workqueue.Pgx(t.tx) }
func (t pgxTransaction) commit(ctx context.Context) error   { return t.tx.Commit(ctx) }
func (t pgxTransaction) rollback(ctx context.Context) error { return t.tx.Rollback(ctx) }

// sqlTransaction holds a *sql.Tx or a *sqlx.Tx.
type sqlTransaction struct{ tx workqueue.SQLTx }

func (t sqlTransaction) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t sqlTransaction) outbox() workqueue.Tx           { return workqueue.SQL(t.tx) }
func (t sqlTransaction) commit(context.Context) error   { return t.tx.Commit() }
func (t sqlTransaction) rollback(context.Context) error { return t.tx.Rollback() }
