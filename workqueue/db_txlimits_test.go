package workqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
)

// If a handler falls silent in its transaction, the server releases its locks, and the attempt fails.
func TestTxLimitsHoldAtTheServer(t *testing.T) {
	t.Parallel()
	r := newLedgerRig(t, rigOptions{})
	id := r.insert("silent")[0]
	type settings struct{ idle, statement, lock string }
	seen := make(chan settings, 1)
	w := r.start(workqueue.WorkerOptions{TxLimits: workqueue.TxLimits{Idle: 300 * time.Millisecond,
		Statement: 7 * time.Second, Lock: 1500 * time.Millisecond}},
		func(ctx context.Context, c *noteClaim) error {
			return c.Tx(ctx, func(tx pgx.Tx) error {
				var s settings
				err := tx.QueryRow(ctx,
					`SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout'),
					current_setting('lock_timeout')`).Scan(&s.idle, &s.statement, &s.lock)
				if err = errors.Join(err, book(ctx, tx, c)); err != nil {
					return err
				}
				seen <- s
				r.eventually("the server ends the session", func() bool {
					return ask[int](r, "SELECT count(*)::int FROM pg_locks WHERE relation = 'ledger'::regclass AND "+
						"mode = 'RowExclusiveLock'") == 0
				})
				return nil
			})
		})
	if got, want := receive(t, seen, "the settings"), (settings{"300ms", "7s", "1500ms"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.eventually("the attempt fails", func() bool { return r.row(id).Error != "" })
	if n := r.booked(id); n != 0 {
		t.Errorf("booked %d times", n)
	}
	if err := w.stop(t); err != nil {
		t.Error(err)
	}
}

func TestTxLimitsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for _, limits := range []workqueue.TxLimits{{Idle: -1}, {Statement: time.Microsecond}, {Lock: 25 * time.Hour}} {
		_, err := workqueue.NewWorker(r.Pool, r.Domain, func(context.Context, *noteClaim) error { return nil },
			workqueue.WorkerOptions{TxLimits: limits})
		if !errors.Is(err, workqueue.ErrInvalid) {
			t.Errorf("%+v: got %v", limits, err)
		}
	}
}
