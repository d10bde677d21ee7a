package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

// BatchTx runs fn in one READ COMMITTED transaction and settles all claims of a batch in it: the writes commit if and
// only if the settles do. It is called once by a [BatchHandler], with its claims, and the handler returns what BatchTx
// returns.
//
// Each result settles the claim with the same index; none acknowledge all. An [Outcome], such as [Permanent] or
// [Snooze], commits together with the writes. Any other error of a claim rolls all writes back: its attempt has failed,
// and the handler is called again with the others. So it is with a claim whose lease was lost. Where an [Outcome] puts
// claims behind it back, see [BatchHandler], the handler is called again without these. If a statement in fn failed,
// nothing can be committed: if no claim has such an error, each Outcome is settled without the writes. An error of fn
// rolls all writes back, and is the error of the call.
func BatchTx[T any](ctx context.Context, batch []*Claim[T], fn func(tx pgx.Tx) ([]error, error)) (results []error,
	err error) {
	rows := make([]*delivery, len(batch))
	for i, c := range batch {
		if rows[i] = c.d; c.d == nil || c.d.byTx.Load() != nil {
			return nil, errors.New("txwork: a claim of the batch is none of a worker, or is settled already: call " +
				"BatchTx once")
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("txwork: the batch has no claims")
	}
	for _, d := range rows {
		d.txErr = errTxPanicked
	}
	results, err = runBatchTx(ctx, rows, fn)
	for i, d := range rows {
		if d.txErr = err; err == nil && results != nil {
			d.txErr = results[i]
		}
	}
	return results, rows[0].withCause(err)
}

// errAgain is the result of a claim whose writes were rolled back because of others: it is called again.
var errAgain = errors.New("txwork: rolled back because of another claim of the batch")

func runBatchTx(ctx context.Context, rows []*delivery, fn func(pgx.Tx) ([]error, error)) (results []error, err error) {
	e, lead := rows[0].engine, rows[0] // whose settings the transaction has
	if i := slices.IndexFunc(rows, (*delivery).folds); i >= 0 {
		lead = rows[i]
		began := e.notes.settleBegins()
		defer e.notes.settleEnded(began)
	}
	tx, err := e.at.begin(ctx, lead)
	if err != nil {
		return nil, fmt.Errorf("txwork: opening the handler's transaction: %w", explain(err))
	}
	defer func() { tx.end(err) }()
	if results, err = fn(handlerTx{tx.tx}); err != nil {
		return nil, err
	}
	switch {
	case len(results) == 0:
		results = make([]error, len(rows))
	case len(results) != len(rows):
		return nil, errResults(len(results), len(rows))
	}
	if tx.tx.Conn().PgConn().TxStatus() == 'E' && !slices.ContainsFunc(results, isError) {
		return nil, aborted(nil)
	}
	if tx.tx.Conn().PgConn().TxStatus() == 'E' || slices.ContainsFunc(results, isPlain) {
		return rolledBack(results), nil
	}
	if again, isNeeded := withoutBehind(rows, results); isNeeded {
		return again, nil
	}
	lost, err := settleBatchIn(ctx, tx, rows, results)
	if err != nil {
		return nil, err
	}
	if lost {
		clear(results)
		return rolledBack(results), nil
	}
	return results, nil
}

func isError(err error) bool { return err != nil }
func isPlain(err error) bool { return err != nil && chosen(err) == nil }

// rolledBack has the claims called again that did not fail: also those with an [Outcome], whose writes are gone. But
// where nothing else says why a statement failed, an Outcome does.
func rolledBack(results []error) []error {
	failed := isError
	if slices.ContainsFunc(results, isPlain) {
		failed = isPlain
	}
	results = slices.Clone(results)
	for i, err := range results {
		if !failed(err) {
			results[i] = errAgain
		}
	}
	return results
}

// settleBatchIn settles claims in the handler's transaction, and commits it unless one of them was lost.
func settleBatchIn(ctx context.Context, tx begunTx, rows []*delivery, results []error) (lost bool, err error) {
	e := rows[0].engine
	outcomes := make([]*Outcome, len(rows))
	for i := range rows {
		outcomes[i] = outcomeOf(results[i])
	}
	all, batch, err := settledTogether(ctx, rows, outcomes)
	if err != nil {
		return false, err
	}
	ctx, call := e.table.telemetry.Start(ctx, telemetry.Settle, len(batch))
	done, err := (&Queue{table: e.table, exec: tx}).settle(ctx, batch, onlyTry)
	if !fault.IsUnsettled(err) && len(done.ids) < len(batch) {
		err = nil // rows behind these in their runs may have been lost
		refused := &SettleError{Table: e.table.Name(), Lost: abortUnsettled(all, done.ids)}
		if slices.ContainsFunc(rows, func(d *delivery) bool { return slices.Contains(refused.Lost, d.ID) }) {
			call.End(telemetry.Event{IDs: []uuid.UUID{}, Err: refused})
			return true, nil
		}
	}
	if err == nil {
		err = commitSettled(ctx, tx.tx, all, batch)
	}
	if err != nil {
		done = settleResult{}
	}
	e.countSettled(done.rows)
	call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err})
	for _, s := range batch {
		if err == nil {
			e.noteSettled(s.outcome)
		}
	}
	return false, err
}

// abortUnsettled cancels the claims that a settle did not change: they were lost.
func abortUnsettled(rows []*delivery, settled []uuid.UUID) (lost []uuid.UUID) {
	for _, d := range rows {
		if !slices.Contains(settled, d.ID) {
			lost = append(lost, d.ID)
			d.abort(ErrLeaseLost)
		}
	}
	return lost
}
