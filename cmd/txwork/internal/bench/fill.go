package bench

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

const (
	fillBatch       = 1000 // jobs in one transaction
	fillConnections = 2
	fillBytes       = 4 << 20 // size of one transaction, at most
)

// fill writes n parcels and brings the table into the state in which every run starts.
func (l *lab) fill(ctx context.Context, phase string, s *store, n int64, size int) error {
	if err := l.write(ctx, phase, n, size, s.insert); err != nil {
		return err
	}
	return l.settle(ctx, s.table())
}

// write writes n parcels, many in each transaction.
func (l *lab) write(ctx context.Context, phase string, n int64, size int, insert func(context.Context, pgx.Tx,
	[]parcel) error) error {
	pool, err := l.pool(ctx, fillConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	batch := int64(max(1, min(fillBatch, fillBytes/max(size, 1))))
	var written, taken atomic.Int64
	defer l.watch(phase, n, written.Load)()
	group, ctx := errgroup.WithContext(ctx)
	for range fillConnections {
		group.Go(func() error {
			for {
				parcels := take(&taken, n, batch, size)
				if len(parcels) == 0 {
					return nil
				}
				if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					return insert(ctx, tx, parcels)
				}); err != nil {
					return err
				}
				written.Add(int64(len(parcels)))
			}
		})
	}
	return group.Wait()
}

// take makes the next parcels of n. Any number of goroutines may share the counter.
func take(taken *atomic.Int64, n, batch int64, size int) []parcel {
	from := taken.Add(batch) - batch
	return parcelsFrom(from, max(0, min(batch, n-from)), size)
}

func parcelsFrom(from, n int64, size int) []parcel {
	parcels := make([]parcel, n)
	for i := range parcels {
		parcels[i] = parcel{number: from + int64(i), size: size}
	}
	return parcels
}

// settle vacuums and analyses the table and, if the role may, writes a checkpoint, so that none falls into the run.
func (l *lab) settle(ctx context.Context, table string) error {
	if err := l.meter.exec(ctx, "VACUUM ANALYZE "+l.in(table)); err != nil {
		return err
	}
	err := l.meter.exec(ctx, "CHECKPOINT")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" { // insufficient_privilege
		return nil
	}
	return err
}
