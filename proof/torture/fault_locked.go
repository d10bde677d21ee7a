//go:build unix

package torture

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/workqueue/keyed"
)

// lockedTables are holders that lock rows of the bookkeeping with SELECT … FOR UPDATE.
func lockedTables() fault {
	return &holders{all: []holder{
		{"a transaction that has locked notes", lockedNotes},
		{"a transaction that has locked the rate of a key", lockedRate},
	}}
}

// lockedNotes locks the notes of a key whose rows become due, and all other notes that exist at that moment.
func lockedNotes(ctx context.Context, h *holding) (g grip, err error) {
	key := newKey()
	_, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		limited := keyed.Limited{Key: key, MaxRunning: 1}
		return p.enqueueTasks(ctx, tx, 3, jobs.Insert{Delay: soon, ByKey: limited})
	})
	if err != nil {
		return g, err
	}
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, _ *producer, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT FROM "+h.schema+".jobs_key_note WHERE concurrency_key = $1 FOR UPDATE",
			key); err != nil {
			return err
		}
		return h.lockNotes(ctx, tx)
	})
	return g, err
}

// lockNotes locks the notes that no other session has locked.
func (h *holding) lockNotes(ctx context.Context, tx pgx.Tx) error {
	for _, table := range []string{"outbox_key_note", "outbox_join_note", "jobs_key_note", "jobs_join_note"} {
		if _, err := tx.Exec(ctx, "SELECT FROM "+h.schema+"."+table+" FOR UPDATE SKIP LOCKED"); err != nil {
			return err
		}
	}
	return nil
}

// lockedRate locks the rate of a key for which more rows are written meanwhile.
func lockedRate(ctx context.Context, h *holding) (g grip, err error) {
	key := newKey()
	rated := jobs.Insert{ByKey: keyed.Limited{Key: key, Rate: 100, Burst: 1}}
	write := func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		return p.enqueueTasks(ctx, tx, 3, rated)
	}
	rows, err := h.commit(ctx, write)
	if err != nil {
		return g, err
	}
	limited, cancel := context.WithTimeout(ctx, h.options.patience())
	defer cancel()
	if err := h.awaitEnded(limited, h.pool, rows); err != nil {
		return g, err
	}
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, _ *producer, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT FROM "+h.schema+".jobs_key_state WHERE concurrency_key = $1 FOR UPDATE", key)
		return err
	})
	if err == nil {
		_, err = h.commit(ctx, write)
	}
	return g, err
}
