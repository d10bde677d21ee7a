package inbox

import (
	"context"
	"fmt"

	"github.com/txwork/txwork/workqueue/validate"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
)

// purgeBatch is how many rows a Purge takes in one transaction: some milliseconds.
const purgeBatch = 1000

// Purged is what a [Inbox.Purge] did.
type Purged struct {
	Stripped   int `json:"stripped"`   // payloads that were removed: tombstones now
	Tombstones int `json:"tombstones"` // deleted, and with them cancelled messages; their keys are free
	Failed     int `json:"failed"`     // dead letters that were deleted
}

// Purge strips the payloads whose retention is over and deletes the rows whose dedup window is, and the
// dead letters whose retention is, in short transactions, until none is left. It may be called anywhere, any
// number of times, and beside a reaper that is given [Inbox.Table], which does the same. With an error it
// tells what was done before.
func (b *Inbox) Purge(ctx context.Context, pool *pgxpool.Pool) (Purged, error) {
	var p Purged
	if pool == nil {
		return p, validate.Errorf("pool", "is nil")
	}
	queue, spec := b.table.On(pool), b.table.Spec()
	err := inBatches(&p.Stripped, func() (int, error) { return b.StripPayloads(ctx, pool, purgeBatch) })
	if err == nil {
		err = inBatches(&p.Tombstones, func() (int, error) { return queue.PurgeDone(ctx, spec.Retention, purgeBatch) })
	}
	if err == nil && spec.FailedRetention > 0 {
		err = inBatches(&p.Failed, func() (int, error) {
			return queue.PurgeFailed(ctx, spec.FailedRetention, purgeBatch)
		})
	}
	return p, err
}

func inBatches(total *int, batch func() (int, error)) error {
	for {
		n, err := batch()
		*total += n
		if err != nil || n < purgeBatch {
			return err
		}
	}
}

// StripPayloads removes payload and headers of up to limit messages that were processed longer ago than
// [Options].Retention, oldest first, and returns how many. Dead letters keep theirs. The keys stay.
func (b *Inbox) StripPayloads(ctx context.Context, pool *pgxpool.Pool, limit int) (stripped int, err error) {
	switch {
	case pool == nil:
		return 0, validate.Errorf("pool", "is nil")
	case limit < 1 || limit > workqueue.MaxBatch:
		return 0, validate.Errorf("limit", "is %d, it must be between 1 and %d", limit, workqueue.MaxBatch)
	}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted,
		AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		read := func(scan func(...any) error) error { return scan(&stripped) }
		return b.table.In(workqueue.Pgx(tx)).Query(ctx, read, b.statements.strip, limit, interval(b.retention))
	})
	if err != nil {
		return 0, fmt.Errorf("txwork: stripping payloads of %s: %w", b.table.Name(), err)
	}
	return stripped, nil
}
