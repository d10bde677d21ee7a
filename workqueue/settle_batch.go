package workqueue

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// A pendingSettle is an outcome on its way into the table.
type pendingSettle struct {
	delivery *delivery
	settlement
	waits int       // how often it was postponed
	due   time.Time // until when it is postponed
	mark  int       // when it first failed: the bisector's successful settles so far, plus 1; 0: not set
}

func (w *Worker) pendingSettle(d *delivery, o *Outcome) pendingSettle {
	p := pendingSettle{delivery: d, settlement: d.settlement(d.ctx, o)}
	p.folds = d.folds()
	return p
}

// isNew reports whether it has never been tried.
func (p pendingSettle) isNew() bool { return p.waits == 0 && p.mark == 0 }

var (
	// batchLimits are the limits of a batch. It waits for locks far longer than renewals, cancels and other settles
	// take, and no other statements of ours hold the locks that it needs.
	batchLimits = TxLimits{Lock: 500 * time.Millisecond, Statement: 2 * time.Second}
	// partLimits are the limits of a part of a batch that failed. If a part stops waiting too early, it is only tried
	// again after a pause.
	partLimits = TxLimits{Lock: 2 * time.Millisecond, Statement: 500 * time.Millisecond}
)

// maxSettleTime bounds the settle of a row, however long its lease.
const maxSettleTime = 10 * time.Second

func (w *Worker) settleLimit() time.Duration { return min(w.callLimit(), maxSettleTime) }

// settleBatch settles in one transaction and returns how many rows that changed. The settle is guarded by its tokens,
// so repeating one whose reply was lost changes nothing.
func (w *Worker) settleBatch(ctx context.Context, pending []pendingSettle, l TxLimits) (changed int, err error) {
	batch := make([]settlement, len(pending))
	for i, p := range pending {
		batch[i] = p.settlement
	}
	if anyFolds(batch) {
		defer w.folder.settles()() // also where the reply was lost
	}
	repeated := !pending[0].isNew()
	limit := l.Statement + w.settleLimit() // the server's limit ends first, which shows that the server is there
	err = w.within(ctx, limit, func(ctx context.Context) error {
		ctx, call := w.table.telemetry.Start(ctx, telemetry.Settle, len(batch))
		done, err := w.settleOver(ctx, batch, l, repeated)
		if repeated && fault.IsUnsettled(err) {
			err = &telemetry.Repeated{Err: err}
		}
		changed = len(done.ids)
		call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
		return err
	})
	return changed, err
}

// settleOver settles over the worker's connections, or in a savepoint of the application's transaction.
func (w *Worker) settleOver(ctx context.Context, batch []settlement, l TxLimits, repeated bool) (done settled,
	err error) {
	if w.outer == nil {
		q := w.settling(l)
		if q.tried = triedFirst; repeated {
			q.tried = triedBefore
		}
		return q.settle(ctx, batch)
	}
	var lost error
	err = pgx.BeginFunc(ctx, w.outer, func(tx pgx.Tx) error {
		done, err = w.table.In(Pgx(tx)).settle(ctx, batch)
		if fault.IsUnsettled(err) {
			return err
		}
		lost = err
		return nil
	})
	if err != nil {
		return settled{}, err
	}
	return done, lost
}

// settling returns the operations on the worker's table, with limits that the server enforces.
func (w *Worker) settling(l TxLimits) *Queue {
	if w.system == nil { // a drain
		return &Queue{table: w.table, exec: poolExecutor{conn.Pool{Conns: w.pool, Limits: conn.Limits(l)}}}
	}
	return w.system.queue(w.table, l)
}

// done ends the worker's responsibility for rows that are settled.
func (w *Worker) done(batch []pendingSettle) {
	deliveries := make([]*delivery, len(batch))
	for i, p := range batch {
		deliveries[i] = p.delivery
		w.noteSettled(p.outcome)
	}
	w.left(deliveries...)
}

// leaveToLease ends the worker's responsibility for rows that cannot be settled: their leases expire.
func (w *Worker) leaveToLease(rows []pendingSettle, cause error) {
	for _, p := range rows {
		w.table.telemetry.LogRow(context.Background(), slog.LevelError, "settle failed; the row is left to the reaper",
			p.row.labels, p.id, slog.Any("error", cause))
		w.left(p.delivery)
	}
}
