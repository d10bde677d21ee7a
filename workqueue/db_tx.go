package workqueue

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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

// An executor runs statements. Every way into the database is one.
type executor interface {
	run(ctx context.Context, calls ...call) error
}

// A call is one statement with its arguments and what to do with each of its rows.
type call struct {
	statement
	args map[string]any
	row  func(scan func(dest ...any) error) error
	// reset forgets what row has collected: a transaction that lost a conflict runs again.
	reset func()
	// unpinned leaves the planner alone: for inserts, which have no plan to go wrong.
	unpinned bool
	// writes marks a statement that a standby refuses by itself, whatever it finds.
	writes bool
	// reads marks a call that changes nothing, and so may run on a standby.
	reads bool
	// lazy marks a change that may be lost in a crash, as a claim may: its commit does not wait for the disk.
	lazy bool
	// promise is the setting by which the caller promises to fold the notes of this call right after its commit; empty:
	// none.
	promise string
}

// arguments are the call's arguments in the order of $1, $2, …
func (c call) arguments() []any {
	args := make([]any, len(c.params))
	for i, name := range c.params {
		v, ok := c.args[name]
		if !ok {
			panic("txwork: statement " + c.name + " lacks argument " + name)
		}
		args[i] = v
	}
	return args
}

type pgxTx struct{ tx pgxQuerier }

// A pgxQuerier is what a pgxTx needs of a transaction.
type pgxQuerier interface {
	Conn() *pgx.Conn
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (pgxTx) database() string { return "pgx" }

func (t pgxTx) run(ctx context.Context, calls ...call) error {
	return runPinned(calls, func(c call) error { return t.query(ctx, c.row, c.text, c.arguments()) })
}

type sqlTx struct{ tx SQLTx }

func (sqlTx) database() string { return "database/sql" }

func (t sqlTx) run(ctx context.Context, calls ...call) error {
	return runPinned(calls, func(c call) error { return t.query(ctx, c.row, c.text, c.arguments()) })
}

// runPinned runs the calls one after the other in the caller's transaction, under the plan settings where a call needs
// them, and then restores the caller's own settings.
func runPinned(calls []call, one func(call) error) error {
	for _, c := range calls {
		if c.unpinned {
			if err := one(c); err != nil {
				return explain(err)
			}
			continue
		}
		var before []string
		if err := one(pinCall(&before)); err != nil {
			return explain(err)
		}
		if err := one(c); err != nil {
			return explain(err)
		}
		if err := one(unpinCall(before)); err != nil {
			return explain(err)
		}
	}
	return nil
}

// rows is what pgx.Rows and *sql.Rows share.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// unread takes a column of any type and keeps nothing.
type unread struct{}

// Scan implements [sql.Scanner], for database/sql.
func (unread) Scan(any) error { return nil }

func eachRow(rs rows, row func(scan func(...any) error) error) error {
	scan := rs.Scan
	for rs.Next() {
		if row == nil {
			continue
		}
		if err := row(scan); err != nil {
			return err
		}
	}
	return rs.Err()
}

// pgxRows lets pgx decode ids in its binary form instead of through sql.Scanner and a string.
type pgxRows struct {
	pgx.Rows
	plans []scanPlan // of each column
}

// A scanPlan scans a column into a destination of a type. It is kept, because finding it takes longer than using it.
type scanPlan struct {
	dest reflect.Type
	plan pgtype.ScanPlan
}

// Scan differs from that of pgx in that an error does not close the rows: the next may be fine, and this
// one may be scanned again.
func (r *pgxRows) Scan(dest ...any) error {
	fields, values := r.FieldDescriptions(), r.RawValues()
	if len(dest) != len(fields) {
		return fmt.Errorf("txwork: %d destinations for %d columns", len(dest), len(fields))
	}
	if r.plans == nil {
		r.plans = make([]scanPlan, len(fields))
	}
	for i, d := range dest {
		if id, ok := d.(*uuid.UUID); ok {
			d = (*[16]byte)(id)
		}
		if _, ok := d.(unread); ok || d == nil {
			continue
		}
		p := &r.plans[i]
		if t := reflect.TypeOf(d); p.dest != t {
			*p = scanPlan{t, r.Conn().TypeMap().PlanScan(fields[i].DataTypeOID, fields[i].Format, d)}
		}
		if err := p.plan.Scan(values[i], d); err != nil {
			return fmt.Errorf("column %s: %w", fields[i].Name, err)
		}
	}
	return nil
}
