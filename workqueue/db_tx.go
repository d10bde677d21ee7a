package workqueue

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
)

// A Tx is an application's open transaction, whichever library opened it. It is sealed: only [Pgx] and
// [SQL] make one, and neither accepts a pool or a bare connection, because a message that is written
// outside the transaction which it reports on is the bug that this library exists to prevent.
//
// txwork never commits, rolls back or closes a Tx.
type Tx interface {
	// Exec runs a statement, such as one of a domain of your own, and returns how many rows it affected. Parameters are
	// $1, $2, … Slices of ids and texts travel as arrays through every driver if the statement casts them, as in
	// $1::uuid[].
	Exec(ctx context.Context, sql string, args ...any) (int64, error)

	// Query runs a statement like Exec and calls row for every row of its result. It must not use the transaction.
	Query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args ...any) error

	executor
	// database names the system in error messages and keeps others from implementing Tx.
	database() string
}

// SQLTx is what [SQL] needs of a transaction. *sql.Tx has it, *sqlx.Tx and others that embed one have
// it too; *sql.DB and *sql.Conn lack Commit and do not compile.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Pgx adapts a pgx transaction: what pgx.Conn.Begin and pgxpool.Pool.Begin return.
func Pgx(tx pgx.Tx) Tx {
	if contain.IsNil(tx) {
		return pgxTx{}
	}
	return pgxTx{tx}
}

// SQL adapts a database/sql transaction, of any PostgreSQL driver. The transaction has to pass statements and their
// arguments on as they are: of one that formats statements itself, such as bun.Tx, take the *sql.Tx inside, bunTx.Tx.
// The first statement is refused otherwise.
func SQL(tx SQLTx) Tx {
	if contain.IsNil(tx) {
		tx = nil
	}
	return sqlTx{tx}
}

// An executor runs statements. Every way into the database is one. Its errors say what to do about them, see [explain].
type executor interface {
	run(ctx context.Context, calls ...conn.Call) error
}

type pgxTx struct{ tx pgxQuerier }

// A pgxQuerier is what a pgxTx needs of a transaction.
type pgxQuerier interface {
	Conn() *pgx.Conn
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (pgxTx) database() string { return "pgx" }

func (t pgxTx) run(ctx context.Context, calls ...conn.Call) error {
	return explain(conn.RunPinned(calls, func(c conn.Call) error { return t.query(ctx, c.Row, c.Text, c.Arguments()) }))
}

type sqlTx struct{ tx SQLTx }

func (sqlTx) database() string { return "database/sql" }

func (t sqlTx) run(ctx context.Context, calls ...conn.Call) error {
	return explain(conn.RunPinned(calls, func(c conn.Call) error { return t.query(ctx, c.Row, c.Text, c.Arguments()) }))
}

// InTx calls fn with a READ COMMITTED transaction of the pool, which it commits, or rolls back if fn returns an
// error or panics: for calls that need a [Tx] where the caller has nothing else to write, such as an operator's. BEGIN
// is sent with the first statement, so one statement takes two round trips.
//
//	err := workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error { return schedules.Pause(ctx, tx, "nightly") })
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(tx Tx) error) error {
	if pool == nil {
		return invalid("pool", "is nil")
	}
	c, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	tx := conn.NewTx(c.Conn())
	defer func() { // also after a panic
		tx.End(err)
		c.Release()
	}()
	if err = fn(pgxTx{tx}); err == nil {
		err = explain(tx.Commit(ctx))
	}
	return err
}

// A poolExecutor runs calls in a transaction of their own.
type poolExecutor struct{ conn.Pool }

func (p poolExecutor) run(ctx context.Context, calls ...conn.Call) error {
	if p.Conns == nil {
		return invalid("pool", "is nil")
	}
	return explain(p.Pool.Run(ctx, calls))
}

// Exec implements [Tx].
func (t pgxTx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if t.tx == nil {
		return 0, invalid("transaction", "is nil")
	}
	encode, err := conn.PgxEncoder(t.tx.Conn(), true)
	if err != nil {
		return 0, err
	}
	tag, err := t.tx.Exec(ctx, sql, conn.EncodeAll(args, encode)...)
	return tag.RowsAffected(), explain(err)
}

// Query implements [Tx].
func (t pgxTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args ...any) error {
	return explain(t.query(ctx, row, sql, args))
}

func (t pgxTx) query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args []any) error {
	if t.tx == nil {
		return invalid("transaction", "is nil")
	}
	encode, err := conn.PgxEncoder(t.tx.Conn(), true)
	if err != nil {
		return err
	}
	rows, err := t.tx.Query(ctx, sql, conn.EncodeAll(args, encode)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return conn.EachPgxRow(rows, row)
}

// Exec implements [Tx].
func (t sqlTx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if t.tx == nil {
		return 0, invalid("transaction", "is nil")
	}
	encode, err := t.encoder(ctx, args)
	if err != nil {
		return 0, explain(err)
	}
	result, err := t.tx.ExecContext(ctx, sql, conn.EncodeAll(args, encode)...)
	if err != nil {
		return 0, explain(t.blame(err, args))
	}
	return result.RowsAffected()
}

// Query implements [Tx].
func (t sqlTx) Query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args ...any) error {
	return explain(t.query(ctx, row, sql, args))
}

func (t sqlTx) query(ctx context.Context, row func(scan func(dest ...any) error) error, sql string, args []any) error {
	if t.tx == nil {
		return invalid("transaction", "is nil")
	}
	encode, err := t.encoder(ctx, args)
	if err != nil {
		return err
	}
	rows, err := t.tx.QueryContext(ctx, sql, conn.EncodeAll(args, encode)...)
	if err != nil {
		return t.blame(err, args)
	}
	defer rows.Close()
	return t.blame(conn.EachRow(rows, row), args)
}

// encoder asks for the encoding of the database if there are notes that it may lack characters of.
func (t sqlTx) encoder(ctx context.Context, args []any) (func(any) any, error) {
	if !conn.NeedsEncoding(args) {
		return conn.EncodeLiteral, nil
	}
	var encoding string
	rows, err := t.tx.QueryContext(ctx, "SELECT pg_catalog.current_setting('server_encoding')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	err = conn.EachRow(rows, func(scan func(...any) error) error { return scan(&encoding) })
	return conn.LiteralFor(encoding), err
}

// blame explains the error of a transaction that sent a statement without its arguments. bun.Tx does so: it formats
// statements itself, and $1 is no placeholder to it. Then the server says that there is no such parameter, or the
// driver counts the arguments before.
func (t sqlTx) blame(err error, args []any) error {
	if err == nil || len(args) == 0 {
		return err
	}
	if postgres.State(err) != "42P02" && !strings.Contains(err.Error(), fmt.Sprintf("expected %d arguments, got 0",
		len(args))) {
		return err
	}
	return fmt.Errorf("%w: %w", invalid("transaction", "is a %T, which does not pass the arguments of a statement to "+
		"the driver: use the *sql.Tx that it wraps, for bun workqueue.SQL(bunTx.Tx)", t.tx), err)
}
