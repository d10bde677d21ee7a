package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// purgeBatch is how many rows Purge handles in one transaction, which takes a few milliseconds.
const purgeBatch = 1000

// Purged counts what [Inbox.Purge] did.
type Purged struct {
	Stripped   int `json:"stripped"`   // rows whose payload was removed: they are tombstones now
	Tombstones int `json:"tombstones"` // tombstones and cancelled messages that were deleted: their keys are free
	Failed     int `json:"failed"`     // dead letters that were deleted
}

// Purge removes the payloads of messages whose retention has ended, and deletes the rows whose dedup window has ended
// and the dead letters whose retention has ended. It works in short transactions until nothing is left to do. Call it
// from any process, any number of times, also beside a reaper that is given [Inbox.Table], which does the same. If it
// returns an error, Purged counts what was done before.
func (b *Inbox) Purge(ctx context.Context, pool *pgxpool.Pool) (Purged, error) {
	var p Purged
	if pool == nil {
		return p, validate.Errorf("pool", "is nil")
	}
	queue, spec := b.table.On(pool), b.table.Spec()
	err := inBatches(&p.Stripped, func() (int, error) { return b.stripPayloads(ctx, pool) })
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

// stripPayloads removes payload and headers of messages that were processed longer ago than [Options].Retention, oldest
// first, and returns of how many: up to purgeBatch. Dead letters keep theirs. The keys stay.
func (b *Inbox) stripPayloads(ctx context.Context, pool *pgxpool.Pool) (stripped int, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted,
		AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		read := func(scan func(...any) error) error { return scan(&stripped) }
		return b.table.In(workqueue.Pgx(tx)).Query(ctx, read, b.statements.strip, purgeBatch, interval(b.retention))
	})
	if err != nil {
		return 0, fmt.Errorf("txwork: stripping payloads of %s: %w", b.table.Name(), err)
	}
	return stripped, nil
}
