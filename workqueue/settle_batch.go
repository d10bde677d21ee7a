package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
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
func (w *Worker) settleBatch(ctx context.Context, batch []pendingSettle, l TxLimits) (changed int, err error) {
	settlements := make([]settlement, len(batch))
	for i, p := range batch {
		settlements[i] = p.settlement
	}
	if anyFolds(settlements) {
		defer w.folder.settles()() // also where the reply was lost
	}
	repeated := !batch[0].isNew()
	limit := l.Statement + w.settleLimit() // the server's limit ends first, which shows that the server is there
	err = w.within(ctx, limit, func(ctx context.Context) error {
		return w.table.telemetry.transitionOf(ctx, opSettle, len(batch), aboutThe(batch), func(ctx context.Context) (
			[]uuid.UUID, error) {
			ids, err := w.settleOver(ctx, settlements, l, repeated)
			if repeated && fault.IsUnsettled(err) {
				err = &repeatedError{err}
			}
			changed = len(ids)
			return ids, err
		})
	})
	return changed, err
}

// aboutThe finds the labels of a row of a batch, for reports of errors.
func aboutThe(batch []pendingSettle) func(uuid.UUID) labels {
	return func(id uuid.UUID) (l labels) {
		if i := slices.IndexFunc(batch, func(p pendingSettle) bool { return p.id == id }); i >= 0 {
			l = batch[i].labels
		}
		return l
	}
}

// settleOver settles over the worker's connections, or in a savepoint of the application's transaction.
func (w *Worker) settleOver(ctx context.Context, batch []settlement, l TxLimits, repeated bool) (ids []uuid.UUID,
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
		ids, err = w.table.In(Pgx(tx)).settle(ctx, batch)
		if fault.IsUnsettled(err) {
			return err
		}
		lost = err
		return nil
	})
	return ids, errors.Join(err, lost)
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
		w.table.telemetry.logRow(context.Background(), slog.LevelError, "settle failed; the row is left to the reaper",
			p.labels, p.id, slog.Any("error", cause))
		w.left(p.delivery)
	}
}

// A repeatedError is the error of a repeated settle, whose first failure has been reported already.
type repeatedError struct{ cause error }

func (e *repeatedError) Error() string { return e.cause.Error() }
func (e *repeatedError) Unwrap() error { return e.cause }
