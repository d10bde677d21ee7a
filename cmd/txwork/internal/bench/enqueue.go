package bench

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// Enqueue writes jobs, and no worker claims them.
type Enqueue struct {
	Jobs        int64 `json:"jobs"`
	Payload     int   `json:"payload_bytes"` // bytes
	Batch       int   `json:"batch"`         // jobs of a transaction
	Connections int   `json:"connections"`
}

// Name implements [Workload].
func (Enqueue) Name() string { return "enqueue" }

func (e Enqueue) run(ctx context.Context, l *lab) (*Result, error) {
	s, err := newStore(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := l.settle(ctx, s.table()); err != nil {
		return nil, err
	}
	m, err := l.begin(ctx, s.table())
	if err != nil {
		return nil, err
	}
	t := newTally(e.Jobs)
	var transactions latencies
	took, err := e.enqueue(ctx, l, s, t, &transactions)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r := &Result{PerSecond: t.perSecond()}
	r.latencies("a transaction", transactions.list())
	if r.Costs, err = m.end(ctx, t.count(), 0); err != nil {
		return nil, err
	}
	finish, cancel := aftermath(ctx)
	defer cancel()
	if err := l.meter.query(finish, []any{&r.Jobs}, "SELECT count(*) FROM "+l.in(s.table())); err != nil {
		return nil, err
	}
	r.Lost = e.Jobs - r.Jobs
	return r.took(took.Seconds()), nil
}

// enqueue opens all connections before the measured time begins.
func (e Enqueue) enqueue(ctx context.Context, l *lab, s *store, t *tally, transactions *latencies) (time.Duration,
	error) {
	pool, err := l.pool(ctx, e.Connections)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := warm(ctx, pool, e.Connections); err != nil {
		return 0, err
	}
	t.begun = time.Now()
	defer l.watch("enqueueing", e.Jobs, t.count)()
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range e.Connections {
		group.Go(func() error { return e.produce(ctx, pool, s, &taken, t, transactions) })
	}
	err = group.Wait()
	return time.Since(t.begun), err
}

// produce runs on one connection until all jobs are taken.
func (e Enqueue) produce(ctx context.Context, pool *pgxpool.Pool, s *store, taken *atomic.Int64, t *tally,
	transactions *latencies) error {
	for {
		parcels := take(taken, e.Jobs, int64(e.Batch), e.Payload)
		if len(parcels) == 0 {
			return nil
		}
		begun := time.Now()
		if err := insertIn(ctx, pool, s, parcels); err != nil {
			return err
		}
		transactions.add(time.Since(begun))
		for range parcels {
			t.add()
		}
	}
}

// insertIn writes jobs in one transaction.
func insertIn(ctx context.Context, pool *pgxpool.Pool, s *store, parcels []parcel) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return s.insert(ctx, tx, parcels) })
}

// warm opens all connections of a pool.
func warm(ctx context.Context, pool *pgxpool.Pool, connections int) error {
	conns := make([]*pgxpool.Conn, 0, connections)
	defer func() {
		for _, c := range conns {
			c.Release()
		}
	}()
	for range connections {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	return nil
}
