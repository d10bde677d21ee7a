package demo

import (
	"context"
	"fmt"
	"time"
)

const (
	watchEvery = 250 * time.Millisecond
	// stallLimit is much longer than the longest silence that is normal: a lease, a reap and a backoff.
	stallLimit = time.Minute
)

// A watch shows the progress, and notices when it stops.
type watch struct {
	bank       *bank
	schema     string
	production *production
	show       *display
}

func (w *watch) run(ctx context.Context) error {
	var applied int
	var made int64
	moved := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
		before, madeBefore := applied, made
		made = w.production.next.Load()
		err := w.bank.pool.QueryRow(ctx, fmt.Sprintf("SELECT count(*) FROM %s.ledger", w.schema)).Scan(&applied)
		if err != nil {
			continue // the workers and producers report database errors
		}
		w.show.progress(applied)
		if applied != before || made != madeBefore {
			moved = time.Now()
		}
		if time.Since(moved) > stallLimit {
			return fmt.Errorf("nothing has moved for %v: %d of %d messages are applied", stallLimit, applied,
				w.production.plan.committed())
		}
	}
}

// drained waits until no message is left that could be delivered.
func (w *watch) drained(ctx context.Context) error {
	for {
		var live bool
		err := w.bank.pool.QueryRow(ctx,
			fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.outbox WHERE completed_at IS NULL)", w.schema)).Scan(&live)
		if err != nil || !live {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(awaitPoll):
		}
	}
}
