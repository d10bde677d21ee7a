package workqueue

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	if isNil(tx) {
		return pgxTx{}
	}
	return pgxTx{tx}
}

// SQL adapts a database/sql transaction, of any PostgreSQL driver. The transaction has to pass statements and their
// arguments on as they are: of one that formats statements itself, such as bun.Tx, take the *sql.Tx inside, bunTx.Tx.
// The first statement is refused otherwise.
func SQL(tx SQLTx) Tx {
	if isNil(tx) {
		tx = nil
	}
	return sqlTx{tx}
}

// isNil reports whether a transaction is missing, also if it is a nil pointer in an interface. Such a transaction is
// refused with an error, and does not panic in the driver.
func isNil(tx any) bool {
	v := reflect.ValueOf(tx)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
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
