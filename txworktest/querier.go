package txworktest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txwork/txwork/workqueue"
)

// A Querier is the place where this package reads and changes rows: a *pgxpool.Pool or a *pgx.Conn sees what has
// committed, a pgx.Tx also what its transaction has written. For database/sql use [SQL].
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// A Domain has a table of txwork's: *outbox.Outbox, *inbox.Inbox, *timers.Timers, *jobs.Client. [Table] makes one from
// a table of your own.
type Domain interface {
	Table() *workqueue.Table
}

// Table returns a [Domain] for a table of your own.
func Table(t *workqueue.Table) Domain { return custom{t} }

type custom struct{ table *workqueue.Table }

func (c custom) Table() *workqueue.Table { return c.table }

// SQLQuerier is implemented by *sql.DB, *sql.Tx, *sql.Conn, *sqlx.Tx and other types that embed one of them.
type SQLQuerier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL makes a [Querier] from a handle of database/sql.
func SQL(q SQLQuerier) Querier { return sqlQuerier{q} }

type sqlQuerier struct{ q SQLQuerier }

func (s sqlQuerier) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	rows, err := s.q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{rows: rows}, nil
}

func (s sqlQuerier) Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error) {
	_, err := s.q.ExecContext(ctx, text, args...)
	return pgconn.CommandTag{}, err
}

// sqlRows implements the methods of pgx.Rows that this package uses.
type sqlRows struct {
	pgx.Rows
	rows *sql.Rows
}

func (r sqlRows) Next() bool             { return r.rows.Next() }
func (r sqlRows) Scan(dest ...any) error { return r.rows.Scan(dest...) }
func (r sqlRows) Err() error             { return r.rows.Err() }
func (r sqlRows) Close()                 { r.rows.Close() }

// statementLimit bounds the statements of this package. One that takes longer probably waits for a lock that the test
// itself holds.
const statementLimit = 30 * time.Second

// limited returns a context for one statement.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, statementLimit,
		fmt.Errorf("no answer within %v: does an open transaction of the test hold the rows?", statementLimit))
}

// because adds to the error of a statement why it was cancelled, if it was.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

func exec(ctx context.Context, q Querier, text string, args ...any) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	_, err := q.Exec(ctx, text, args...)
	return because(ctx, err)
}

// query reads one text column. Every driver can scan text, so this package does its own decoding.
func query(t testing.TB, q Querier, text string, args ...any) []string {
	t.Helper()
	texts, err := tryQuery(t.Context(), q, text, args...)
	if err != nil {
		t.Fatalf("txworktest: %v", err)
	}
	return texts
}

func tryQuery(ctx context.Context, q Querier, text string, args ...any) (texts []string, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	defer func() { err = because(ctx, err) }()
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		texts = append(texts, one)
	}
	return texts, rows.Err()
}
