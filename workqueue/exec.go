package workqueue

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InTx calls fn with a READ COMMITTED transaction of the pool, which it commits, or rolls back if fn returns an
// error or panics: for calls that need a [Tx] where the caller has nothing else to write, such as an operator's.
//
//	err := workqueue.InTx(ctx, pool, func(tx workqueue.Tx) error { return schedules.Pause(ctx, tx, "nightly") })
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(tx Tx) error) error {
	if pool == nil {
		return Invalid("pool", "is nil")
	}
	return pgx.BeginTxFunc(ctx, pool, readWrite, func(tx pgx.Tx) error { return fn(Pgx(tx)) })
}

// Exec runs a domain's own statement in an application's transaction and returns how many rows it
// affected. Parameters are $1, $2, … Slices of ids and texts travel as arrays through every driver if the
// statement casts them, as in $1::uuid[].
func Exec(ctx context.Context, tx Tx, sql string, args ...any) (int64, error) {
	if tx == nil {
		return 0, Invalid("transaction", "is nil")
	}
	n, err := tx.exec(ctx, sql, args)
	return n, explain(err)
}

// Query runs a domain's own statement like [Exec] and calls row for every row of its result. It must not
// use tx.
func Query(ctx context.Context, tx Tx, row func(scan func(dest ...any) error) error, sql string, args ...any) error {
	if tx == nil {
		return Invalid("transaction", "is nil")
	}
	return explain(tx.query(ctx, row, sql, args))
}

func (t pgxTx) exec(ctx context.Context, sql string, args []any) (int64, error) {
	if t.tx == nil {
		return 0, Invalid("transaction", "is nil")
	}
	tag, err := t.tx.Exec(ctx, sql, encodeAll(args, pgxEncoder(t.tx.Conn()))...)
	return tag.RowsAffected(), err
}

func (t pgxTx) query(ctx context.Context, row func(func(...any) error) error, sql string, args []any) error {
	if t.tx == nil {
		return Invalid("transaction", "is nil")
	}
	rows, err := t.tx.Query(ctx, sql, encodeAll(args, pgxEncoder(t.tx.Conn()))...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return eachRow(&pgxRows{Rows: rows}, row)
}

func (t sqlTx) exec(ctx context.Context, sql string, args []any) (int64, error) {
	if t.tx == nil {
		return 0, Invalid("transaction", "is nil")
	}
	result, err := t.tx.ExecContext(ctx, sql, encodeAll(args, literal)...)
	if err != nil {
		return 0, t.blame(err, args)
	}
	return result.RowsAffected()
}

func (t sqlTx) query(ctx context.Context, row func(func(...any) error) error, sql string, args []any) error {
	if t.tx == nil {
		return Invalid("transaction", "is nil")
	}
	rows, err := t.tx.QueryContext(ctx, sql, encodeAll(args, literal)...)
	if err != nil {
		return t.blame(err, args)
	}
	defer rows.Close()
	return t.blame(eachRow(rows, row), args)
}

// blame names a transaction that sent a statement without its arguments. bun.Tx does: it formats statements itself, and
// $1 is no placeholder to it. The server says that there is no such parameter, or the driver counts the arguments first.
func (t sqlTx) blame(err error, args []any) error {
	if err == nil || len(args) == 0 {
		return err
	}
	if sqlState(err) != "42P02" && !strings.Contains(err.Error(), fmt.Sprintf("expected %d arguments, got 0", len(args))) {
		return err
	}
	return fmt.Errorf("%w: %w", Invalid("transaction", "is a %T, which does not pass the arguments of a statement to the driver: "+
		"use the *sql.Tx that it wraps, for bun workqueue.SQL(bunTx.Tx)", t.tx), err)
}

// sqlState is the SQLSTATE of an error of any driver. pgx and lib/pq have a method for it, bun's pgdriver has another.
func sqlState(err error) string {
	if e, ok := errorAs[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	if e, ok := errorAs[interface {
		error
		Field(byte) string
	}](err); ok {
		return e.Field('C')
	}
	return ""
}

func encodeAll(values []any, encode func(any) any) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = encode(v)
	}
	return args
}
