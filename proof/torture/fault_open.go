//go:build unix

package torture

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/jobs"
	"github.com/txwork/txwork/outbox"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// openTransactions are transactions of an application that stay open for a while and are then rolled back.
func openTransactions() fault {
	return &holders{all: []holder{
		{"a transaction that has locked rows that are ready", lockedRows},
		{"a transaction that has locked a join", lockedJoin},
		{"a transaction that has written an ordered key", writtenKey},
		{"a transaction that has cancelled a row", cancelledRow},
		{"a transaction that has swept", sweptTables},
	}}
}

// soon is when rows become due, so that something can happen to them before.
const soon = 400 * time.Millisecond

// lockedRows locks a row of each table, which then becomes due.
func lockedRows(ctx context.Context, h *holding) (g grip, err error) {
	rows, err := h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		task, err := p.enqueueTasks(ctx, tx, 1, jobs.Insert{Delay: soon})
		if err != nil {
			return nil, err
		}
		timer, err := p.setPlain(ctx, tx, soon)
		if err != nil {
			return nil, err
		}
		message, err := p.sendPlain(ctx, tx, outbox.Message{ScheduledAt: h.serverTime().Add(soon)})
		return append(append(task, timer...), message...), err
	})
	if err != nil {
		return g, err
	}
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, _ *producer, tx pgx.Tx) error {
		for _, r := range rows {
			_, err := tx.Exec(ctx, "SELECT FROM "+h.schema+"."+r.table+" WHERE "+found[r.table]+" FOR UPDATE",
				[]string{r.name})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return g, err
}

// lockedJoin settles jobs of a batch while a transaction holds the join's row, as one does that extends the batch.
func lockedJoin(ctx context.Context, h *holding) (g grip, err error) {
	var b writtenBatch
	_, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) (_ []announced, err error) {
		b, err = p.startBatch(ctx, tx, 4, jobs.Insert{Delay: soon})
		return b.rows(), err
	})
	if err != nil {
		return g, err
	}
	g.meanwhile = b.jobs
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, _ *producer, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT FROM "+h.schema+".jobs_join WHERE id = $1 FOR UPDATE", b.id)
		return err
	})
	return g, err
}

// writtenKey writes a message behind others of its key. The others were committed before and do not wait for it.
func writtenKey(ctx context.Context, h *holding) (g grip, err error) {
	key := newKey()
	g.meanwhile, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) ([]announced, error) {
		later := outbox.Message{Key: key, ScheduledAt: h.serverTime().Add(soon)}
		return p.sendPlain(ctx, tx, later, outbox.Message{Key: key}, outbox.Message{Key: key})
	})
	if err != nil {
		return g, err
	}
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) error {
		_, err := p.sendPlain(ctx, tx, outbox.Message{Key: key})
		return err
	})
	return g, err
}

// cancelledRow cancels a row of a limited key and of a batch. The other rows of both continue.
func cancelledRow(ctx context.Context, h *holding) (g grip, err error) {
	var b writtenBatch
	_, err = h.commit(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) (_ []announced, err error) {
		b, err = p.startBatch(ctx, tx, 5, jobs.Insert{Delay: soon, ByKey: keyed.Limited{Key: newKey(),
			MaxRunning: 2}})
		return b.rows(), err
	})
	if err != nil {
		return g, err
	}
	g.meanwhile = b.jobs[1:]
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, p *producer, tx pgx.Tx) error {
		_, err := p.domains.jobs.Cancel(ctx, workqueue.Pgx(tx), "held", uuid.MustParse(b.jobs[0].name))
		return err
	})
	return g, err
}

func (w writtenBatch) rows() []announced { return append(w.jobs[:len(w.jobs):len(w.jobs)], w.after...) }

// sweptTables locks the position from which the next sweep is to continue.
func sweptTables(ctx context.Context, h *holding) (g grip, err error) {
	g.release, err = h.leaveOpen(ctx, func(ctx context.Context, _ *producer, tx pgx.Tx) error {
		for _, table := range []string{"outbox", "jobs"} {
			name := h.schema + "." + table
			if _, err := tx.Exec(ctx, "UPDATE "+name+"_key_cursor SET swept_at = '-infinity'"); err != nil {
				return err
			}
			for _, sweep := range []string{"_key_sweep", "_join_sweep"} {
				if _, err := tx.Exec(ctx, "SELECT "+name+sweep+"(1000)"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return g, err
}
