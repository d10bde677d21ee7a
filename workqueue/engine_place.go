package workqueue

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
)

// A place is where an engine works: a worker over the connections of its runtime, a drain over those of the
// application's pool or in a transaction of the application. All that differs between the three is here.
type place interface {
	// queue is the operations on a table. The server enforces the limits, except in the application's transaction.
	queue(*Table, TxLimits) *Queue
	// renewing is the operations on a table for renewals.
	renewing(*Table) *Queue
	// settle settles a batch in one transaction, or in a savepoint.
	settle(context.Context, *Table, []*settlement, TxLimits, trial) (*changes, error)
	// begin opens the transaction of a row's handler.
	begin(context.Context, *delivery) (begunTx, error)
	// timedOut is told of a statement that took all of its time.
	timedOut(error)
	// commits reports that other sessions see what is done as soon as it is done. Otherwise there are no leases to
	// renew, nobody can wait for the locks of others, and an error of the database is final.
	commits() bool
}

// onPool is the place of a drain.
type onPool struct{ pool *pgxpool.Pool }

func (p onPool) queue(t *Table, l TxLimits) *Queue {
	return &Queue{table: t, exec: poolExecutor{conn.Pool{Conns: p.pool, Limits: conn.Limits(l)}}}
}

func (p onPool) renewing(t *Table) *Queue { return p.queue(t, TxLimits{}) }

func (p onPool) settle(ctx context.Context, t *Table, batch []*settlement, l TxLimits, try trial) (*changes,
	error) {
	return p.queue(t, l).settle(ctx, batch, try)
}

func (p onPool) begin(ctx context.Context, d *delivery) (begunTx, error) {
	return beginOn(ctx, p.pool, d)
}
func (p onPool) timedOut(error) {}
func (p onPool) commits() bool  { return true }

// beginOn begins, marks and bounds a handler's transaction in one round trip.
func beginOn(ctx context.Context, pool *pgxpool.Pool, d *delivery) (begunTx, error) {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return begunTx{}, err
	}
	tx, err := c.BeginTx(ctx, pgx.TxOptions{BeginQuery: d.beginText()})
	if err != nil {
		c.Release()
	}
	return begunTx{ownTx{tx}, tx, d.ID, c}, err
}

// inTx is the place of a drain in a transaction of the application. A settle and a handler's transaction are savepoints
// there.
type inTx struct{ tx pgx.Tx }

func (p inTx) queue(t *Table, _ TxLimits) *Queue { return t.In(Pgx(p.tx)) }
func (p inTx) renewing(t *Table) *Queue          { return t.In(Pgx(p.tx)) }
func (p inTx) timedOut(error)                    {}
func (p inTx) commits() bool                     { return false }

func (p inTx) settle(ctx context.Context, t *Table, batch []*settlement, _ TxLimits, _ trial) (done *changes,
	err error) {
	var lost error
	err = pgx.BeginFunc(ctx, p.tx, func(tx pgx.Tx) error {
		done, err = t.In(Pgx(tx)).settle(ctx, batch, onlyTry)
		if fault.IsUnsettled(err) {
			return err
		}
		lost = err
		return nil
	})
	if err != nil {
		return new(changes), err
	}
	return done, lost
}

// begin marks the savepoint in a statement of its own. The settings of a settle would outlive the savepoint, so there
// they are restored.
func (p inTx) begin(ctx context.Context, d *delivery) (begunTx, error) {
	tx, err := p.tx.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT "+markSet(d.ID))
	}
	return begunTx{pgxTx{tx}, tx, d.ID, nil}, err
}
