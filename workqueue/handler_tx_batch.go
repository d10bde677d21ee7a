package workqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
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
	e, lead := rows[0].engine, rows[0]
	if i := slices.IndexFunc(rows, (*delivery).folds); i >= 0 {
		lead = rows[i]
		began := e.notes.settleBegins()
		defer e.notes.settleEnded(began)
	}
	tx, err := lead.beginTx(ctx)
	if err != nil {
		return nil, err
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
	outcomes := make([]*Outcome, len(rows))
	for i, err := range results {
		outcomes[i] = outcomeOf(err)
	}
	err = e.settleIn(ctx, tx, rows, outcomes)
	if errors.As(err, new(*SettleError)) { // a claim was lost
		clear(results)
		return rolledBack(results), nil
	}
	if err != nil {
		return nil, err
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
