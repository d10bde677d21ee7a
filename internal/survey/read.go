package survey

import (
	"context"
	"embed"
	"fmt"
	"sync"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/internal/sqltext"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var templates sqltext.Files = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(template.New("lanes").Parse(sqltext.Lanes)).ParseFS(sqlFiles, "sql/*.sql"))
})

// Templates returns a copy of the statements of this package, to which another package adds its own.
func Templates() *template.Template { return template.Must(templates().Clone()) }

// LockLimit is how long a statement waits for a lock.
const LockLimit = 100 * time.Millisecond

// idleLimit is how long a transaction may be idle, or as long as a statement of it may take if that is longer: whoever
// has that much patience may be on a busy machine.
const idleLimit = 5 * time.Second

// beginText begins a transaction that blocks no other session. The planner settings are those of the core's claims. One
// statement makes all settings.
const beginText = `BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SELECT pg_catalog.set_config('statement_timeout', '%d', true), pg_catalog.set_config('lock_timeout', '%d', true),
	pg_catalog.set_config('idle_in_transaction_session_timeout', '%d', true),
	pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
	pg_catalog.set_config('enable_mergejoin', 'off', true), ` + postgres.PinReads

// Connections is a pool or a runtime.
type Connections interface {
	AcquireFunc(ctx context.Context, f func(*pgxpool.Conn) error) error
}

// A Reader reads in bounded transactions.
type Reader struct {
	From  Connections
	Limit time.Duration // of each statement; counted in whole milliseconds

	hashes  bool     // groups rows by hashing: sorting many long rows goes to disk
	sitting *sitting // nil: each read has a transaction of its own
}

// A sitting is the transaction that the reads of one goroutine share.
type sitting struct {
	conn  *pgxpool.Conn // nil once it was lost
	tx    pgx.Tx
	begun time.Time
}

// Together gives do a reader whose reads share a connection and, as long as none fails, a transaction: most of the
// statements of a single read begin and end it. A transaction that is older than the limit of a statement is ended
// before the next read, so DDL waits for two statements at most. The reader is for one goroutine, and for as long as do
// runs.
func (r Reader) Together(ctx context.Context, do func(Reader) error) error {
	return r.From.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		r.sitting = &sitting{conn: conn}
		err := do(r)
		r.Anew(ctx) // nothing was written: an error says nothing about what was read
		return err
	})
}

// Anew makes the next read begin a transaction, which sees what the server caches for one, such as its statistics, as
// it is then.
func (r Reader) Anew(ctx context.Context) error {
	if r.sitting == nil || r.sitting.tx == nil {
		return nil
	}
	tx := r.sitting.tx
	r.sitting.tx = nil
	return tx.Commit(ctx)
}

// Read runs do in a bounded transaction.
func (r Reader) Read(ctx context.Context, do func(pgx.Tx) error) error {
	if r.sitting != nil && r.sitting.keeps() {
		return r.readTogether(ctx, do)
	}
	return r.From.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: r.begin()}, do)
	})
}

func (r Reader) begin() string {
	text := fmt.Sprintf(beginText, r.Limit.Milliseconds(), LockLimit.Milliseconds(),
		max(idleLimit, r.Limit).Milliseconds())
	if r.hashes {
		text += ", pg_catalog.set_config('enable_sort', 'off', true)"
	}
	return text
}

// keeps tells whether the connection can be used. One that was lost is given back, so that each of the reads that
// follow gets another.
func (s *sitting) keeps() bool {
	if s.conn != nil && s.conn.Conn().IsClosed() {
		s.conn.Release()
		s.conn, s.tx = nil, nil
	}
	return s.conn != nil
}

func (r Reader) readTogether(ctx context.Context, do func(pgx.Tx) error) (err error) {
	s := r.sitting
	if s.tx != nil && time.Since(s.begun) > r.Limit {
		if err := r.Anew(ctx); err != nil {
			return err
		}
	}
	if s.tx == nil {
		tx, err := s.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: r.begin()})
		if err != nil {
			return err
		}
		s.tx, s.begun = tx, time.Now()
	}
	if err = do(s.tx); err != nil {
		s.tx.Rollback(ctx) // the error of the read says more
		s.tx = nil
	}
	return err
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
