package conformance

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"

	"github.com/txwork/txwork/internal/pgtest"
	"github.com/txwork/txwork/workqueue"
)

// A way is one way to call the operations of a table.
type way struct {
	name          string
	transactional bool // its operations run in the caller's transaction
	functions     bool // it calls the table's SQL functions
	brief         bool // it differs from another way only in how arguments are encoded
	similar       bool // it is brief unless tests run at full size
	open          func(*testing.T, *pgtest.DB, *workqueue.Table) begin
}

var ways = []way{
	{name: "pgx", transactional: true, open: openPgx(testsOwn)},
	{name: "pgx simple protocol", transactional: true, brief: true, open: openPgx(simpleProtocol)},
	{name: "database sql", transactional: true, similar: true, open: openSQL},
	{name: "sqlx", transactional: true, similar: true, open: openSQLX},
	{name: "functions", transactional: true, functions: true, open: openFunctions},
	{name: "pool", similar: true, open: openPool(testsOwn)},
	{name: "pool simple protocol", brief: true, open: openPool(simpleProtocol)},
}

// begin starts a transaction of a way.
type begin func(context.Context) (*transaction, error)

// A transaction is the operations inside one open transaction. After commit, rollback does nothing.
type transaction struct {
	ops
	exec     func(ctx context.Context, query string) error
	commit   func() error
	rollback func() error
}

// ops are the operations that every way has. Those that change rows return their ids; fetch is a claim that returns the
// rows.
type ops interface {
	// insert writes rows as they are given. enqueue writes many rows at once, and once does so where a row with the
	// same unique values has to stay as it is.
	insert(ctx context.Context, rows ...workqueue.NewRow) ([]uuid.UUID, error)
	enqueue(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error)
	once(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error)

	// apart undoes what fn did if it fails, so that the transaction goes on.
	apart(ctx context.Context, fn func(o ops) error) error

	claim(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int, lanes ...any) ([]uuid.UUID, error)
	fetch(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int, lanes ...any) ([]workqueue.Row, error)
	ack(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	abandon(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration, cause string) ([]uuid.UUID,
		error)
	retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error)
	fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error)
	snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID, error)
	release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error)
	leave(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration, cause string) ([]uuid.UUID, error)
	unavailable(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error)
	extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)
	reap(ctx context.Context, limit int) (workqueue.Reaped, error)
	sweep(ctx context.Context, limit int) (int, error)
	purgeDone(ctx context.Context, age time.Duration, limit int) (int, error)
	purgeFailed(ctx context.Context, age time.Duration, limit int) (int, error)
	redrive(ctx context.Context, ids []uuid.UUID, actor string) ([]uuid.UUID, error)
	cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error)

	// wake tells in how long there is work in the lanes, up to the longest time for which a fetch says to wait. Nil is
	// not before that.
	wake(ctx context.Context, lanes ...any) (*time.Duration, error)
	stats(ctx context.Context) (workqueue.Stats, error)
}

// longestWait is for how long a fetch says to wait at most.
const longestWait = time.Minute

func idsOfRows(rows []workqueue.Row) []uuid.UUID {
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

// queueOps are the operations of the Go API.
type queueOps struct {
	*workqueue.Queue
	write func(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error)
}

var _ ops = queueOps{}

func (o queueOps) enqueue(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
	return o.write(ctx, rows...)
}

func (o queueOps) insert(ctx context.Context, rows ...workqueue.NewRow) ([]uuid.UUID, error) {
	inserted, err := o.write(ctx, rows...)
	ids := make([]uuid.UUID, len(inserted))
	for i, in := range inserted {
		ids[i] = in.ID
	}
	return ids, err
}

func (o queueOps) once(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
	return o.write(ctx, rows...)
}

// apart need not undo anything: what Go refuses has not reached the database.
func (o queueOps) apart(_ context.Context, fn func(ops) error) error { return fn(o) }

func (o queueOps) claim(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int,
	lanes ...any) ([]uuid.UUID, error) {
	rows, err := o.Claim(ctx, owner, lease, limit, lanes...)
	return idsOfRows(rows), err
}

func (o queueOps) fetch(ctx context.Context, owner uuid.UUID, lease time.Duration, limit int,
	lanes ...any) ([]workqueue.Row, error) {
	return o.Claim(ctx, owner, lease, limit, lanes...)
}

func (o queueOps) ack(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.Ack(ctx, owner, ids)
}

func (o queueOps) abandon(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	return o.Abandon(ctx, owner, ids, delay, cause)
}

func (o queueOps) retry(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.Retry(ctx, owner, ids, cause)
}

func (o queueOps) fail(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID, error) {
	return o.Fail(ctx, owner, ids, cause)
}

func (o queueOps) extend(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, lease time.Duration) ([]uuid.UUID,
	error) {
	return o.Extend(ctx, owner, ids, lease)
}

func (o queueOps) snooze(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration) ([]uuid.UUID,
	error) {
	return o.Snooze(ctx, owner, ids, delay)
}

func (o queueOps) release(ctx context.Context, owner uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	return o.Release(ctx, owner, ids)
}

func (o queueOps) leave(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, delay time.Duration,
	cause string) ([]uuid.UUID, error) {
	return o.Leave(ctx, owner, ids, delay, cause)
}

func (o queueOps) unavailable(ctx context.Context, owner uuid.UUID, ids []uuid.UUID, cause string) ([]uuid.UUID,
	error) {
	return o.Unavailable(ctx, owner, ids, cause)
}

func (o queueOps) reap(ctx context.Context, limit int) (workqueue.Reaped, error) {
	return o.ReapExpired(ctx, limit)
}

func (o queueOps) sweep(ctx context.Context, limit int) (int, error) { return o.Sweep(ctx, limit) }

func (o queueOps) purgeDone(ctx context.Context, age time.Duration, limit int) (int, error) {
	return o.PurgeDone(ctx, age, limit)
}

func (o queueOps) purgeFailed(ctx context.Context, age time.Duration, limit int) (int, error) {
	return o.PurgeFailed(ctx, age, limit)
}

func (o queueOps) redrive(ctx context.Context, ids []uuid.UUID, actor string) ([]uuid.UUID, error) {
	return o.Redrive(ctx, ids, actor)
}

func (o queueOps) cancel(ctx context.Context, ids []uuid.UUID, reason string) ([]uuid.UUID, error) {
	return o.Cancel(ctx, ids, reason)
}

func (o queueOps) wake(ctx context.Context, _ ...any) (*time.Duration, error) {
	w, err := o.NextWakeAt(ctx)
	if w == nil || w.In > longestWait {
		return nil, err
	}
	return &w.In, err
}

func (o queueOps) stats(ctx context.Context) (workqueue.Stats, error) { return o.Stats(ctx) }

// inTx returns the operations in an application's transaction.
func inTx(table *workqueue.Table, tx workqueue.Tx) queueOps {
	return queueOps{table.In(tx), func(ctx context.Context, rows ...workqueue.NewRow) ([]workqueue.Enqueued, error) {
		return table.Insert(ctx, tx, rows...)
	}}
}

// A choice chooses the pool that a way works on.
type choice func(*testing.T, *pgtest.DB) *pgxpool.Pool

func testsOwn(_ *testing.T, db *pgtest.DB) *pgxpool.Pool { return db.Pool }

// simpleProtocol makes a pool like the test's whose connections use the simple query protocol.
func simpleProtocol(t *testing.T, db *pgtest.DB) *pgxpool.Pool {
	return pgtest.NewPool(t, db, pgtest.WithPool(func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}))
}

func openPgx(choose choice) func(*testing.T, *pgtest.DB, *workqueue.Table) begin {
	return func(t *testing.T, db *pgtest.DB, table *workqueue.Table) begin {
		pool := choose(t, db)
		return func(ctx context.Context) (*transaction, error) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, err
			}
			return pgxTransaction(inTx(table, workqueue.Pgx(tx)), tx), nil
		}
	}
}

func pgxTransaction(o ops, tx pgx.Tx) *transaction {
	return &transaction{
		ops:      o,
		exec:     func(ctx context.Context, query string) error { _, err := tx.Exec(ctx, query); return err },
		commit:   func() error { return tx.Commit(context.Background()) },
		rollback: func() error { return tx.Rollback(context.Background()) },
	}
}

func openSQL(t *testing.T, db *pgtest.DB, table *workqueue.Table) begin {
	handle := db.SQL(t)
	return func(ctx context.Context) (*transaction, error) {
		tx, err := handle.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return sqlTransaction(inTx(table, workqueue.SQL(tx)), tx), nil
	}
}

func openSQLX(t *testing.T, db *pgtest.DB, table *workqueue.Table) begin {
	handle := sqlx.NewDb(db.SQL(t), "pgx")
	return func(ctx context.Context) (*transaction, error) {
		tx, err := handle.BeginTxx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return sqlTransaction(inTx(table, workqueue.SQL(tx)), tx.Tx), nil
	}
}

func sqlTransaction(o ops, tx *sql.Tx) *transaction {
	return &transaction{
		ops:      o,
		exec:     func(ctx context.Context, query string) error { _, err := tx.ExecContext(ctx, query); return err },
		commit:   tx.Commit,
		rollback: tx.Rollback,
	}
}

// openPool makes every operation its own transaction. Rows are enqueued through pgx.
func openPool(choose choice) func(*testing.T, *pgtest.DB, *workqueue.Table) begin {
	return func(t *testing.T, db *pgtest.DB, table *workqueue.Table) begin {
		pool := choose(t, db)
		return func(context.Context) (*transaction, error) {
			return &transaction{
				ops:      onPool(table, pool),
				commit:   func() error { return nil },
				rollback: func() error { return nil },
			}, nil
		}
	}
}

func onPool(table *workqueue.Table, pool *pgxpool.Pool) queueOps {
	return queueOps{table.On(pool), func(ctx context.Context, rows ...workqueue.NewRow) (inserted []workqueue.Enqueued,
		err error) {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			inserted, err = table.Insert(ctx, workqueue.Pgx(tx), rows...)
			return err
		})
		return inserted, err
	}}
}
