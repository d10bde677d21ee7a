package survey

import (
	"context"
	"embed"
	"fmt"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates = template.Must(template.Must(template.New("lanes").Parse(sqltext.Lanes)).ParseFS(sqlFiles, "sql/*.sql"))

// Templates returns a copy of the statements of this package, to which another package adds its own.
func Templates() *template.Template { return template.Must(templates.Clone()) }

// LockLimit is how long a statement waits for a lock.
const LockLimit = 100 * time.Millisecond

// idleLimit is how long a transaction may be idle, or as long as a statement of it may take if that is longer: whoever
// has that much patience may be on a busy machine.
const idleLimit = 5 * time.Second

// beginText begins a transaction that blocks no other session. The planner settings are those of the core's claims: a
// table that was never analysed would get a sequential scan, however large it is.
const beginText = `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SET LOCAL statement_timeout = %d;
SET LOCAL lock_timeout = %d;
SET LOCAL idle_in_transaction_session_timeout = %d;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL jit = off`

// Connections is a pool or a runtime.
type Connections interface {
	AcquireFunc(ctx context.Context, f func(*pgxpool.Conn) error) error
}

// A Reader reads in bounded transactions.
type Reader struct {
	From  Connections
	Limit time.Duration // of each statement; counted in whole milliseconds
}

// Read runs do in a bounded transaction.
func (r Reader) Read(ctx context.Context, do func(pgx.Tx) error) error {
	begin := fmt.Sprintf(beginText, r.Limit.Milliseconds(), LockLimit.Milliseconds(),
		max(idleLimit, r.Limit).Milliseconds())
	return r.From.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, do)
	})
}

// Rows reads the rows of a statement in its own transaction.
func Rows[T any](ctx context.Context, r Reader, text string, args ...any) (all []T, err error) {
	err = postgres.Renewed(func() error {
		return r.Read(ctx, func(tx pgx.Tx) error {
			found, err := tx.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			all, err = pgx.CollectRows(found, pgx.RowToStructByPos[T])
			return err
		})
	})
	return all, err
}

// rows is Rows for a statement of this package.
func rows[T any](ctx context.Context, r Reader, file string, data any, args ...any) ([]T, error) {
	return Rows[T](ctx, r, sqltext.Statement(templates, file, data), args...)
}

// one reads the only row of a statement.
func one[T any](ctx context.Context, r Reader, file string, data any, args ...any) (row T, err error) {
	all, err := rows[T](ctx, r, file, data, args...)
	if len(all) > 0 {
		row = all[0]
	}
	return row, err
}
