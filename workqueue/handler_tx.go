package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txwork/txwork/internal/contain"
	"github.com/txwork/txwork/internal/postgres"
	"github.com/txwork/txwork/workqueue/internal/conn"
	"github.com/txwork/txwork/workqueue/internal/fault"
	"github.com/txwork/txwork/workqueue/internal/telemetry"
)

func (d *delivery) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	if d.byTx.Load() != nil {
		return errors.New("txwork: the claim is settled already: call Tx once")
	}
	d.txErr = errTxPanicked
	d.txErr = d.withCause(d.runTx(ctx, fn))
	return d.txErr
}

// withCause adds the reason to an error that only says that the handler's context was cancelled.
func (d *delivery) withCause(err error) error {
	cause := context.Cause(d.ctx)
	if cause == nil || !contain.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errTxPanicked is d.txErr until Tx has returned: a handler that recovers from a panic in Tx must not acknowledge.
var errTxPanicked = errors.New("txwork: the function that was given to Tx panicked")

// beginTx begins a transaction of a handler. It has the settings of the row.
func (d *delivery) beginTx(ctx context.Context) (begunTx, error) {
	tx, err := d.engine.at.begin(ctx, d)
	if err != nil {
		err = fmt.Errorf("txwork: opening the handler's transaction: %w", explain(err))
	}
	return tx, err
}

func (d *delivery) runTx(ctx context.Context, fn func(pgx.Tx) error) (err error) {
	if d.folds() {
		began := d.engine.notes.settleBegins()
		defer d.engine.notes.settleEnded(began)
	}
	tx, err := d.beginTx(ctx)
	if err != nil {
		return err
	}
	defer func() { tx.end(err) }()
	result := fn(handlerTx{tx.tx})
	if result != nil && chosen(result) == nil {
		return result
	}
	if tx.tx.Conn().PgConn().TxStatus() == 'E' {
		return aborted(result)
	}
	return d.engine.settleIn(ctx, tx, []*delivery{d}, []*Outcome{outcomeOf(result)})
}

// aborted is the result of a transaction in which a statement failed, so that it cannot be committed. An outcome that
// the handler chose, such as Permanent, is returned, and settled without the transaction.
func aborted(result error) error {
	if result == nil {
		return errors.New("txwork: a statement of the handler's transaction failed and its error was not returned: " +
			"the writes are rolled back")
	}
	return result
}

// handlerTx keeps a handler from committing its writes without the settle.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error {
	return errors.New("txwork: Claim.Tx commits the transaction, together with the settle")
}

// settleIn settles claims in the handler's transaction, and commits it. A claim of them that the settle does not change
// is an error even if it was settled before: the writes were then committed with it, and must not be written twice.
// What is not committed is told by the settle that follows.
func (e *engine) settleIn(ctx context.Context, tx begunTx, claims []*delivery, outcomes []*Outcome) error {
	rows, batch, err := settledTogether(ctx, claims, outcomes)
	if err != nil {
		return err
	}
	ctx, call := e.table.telemetry.Start(ctx, telemetry.Settle, len(batch))
	done, err := (&Queue{table: e.table, exec: tx}).settle(ctx, batch, onlyTry)
	if !fault.IsUnsettled(err) && len(done.ids) < len(batch) {
		lost := abortUnsettled(rows, done.ids)
		switch {
		case !slices.ContainsFunc(claims, func(d *delivery) bool { return slices.Contains(lost, d.ID) }):
			err = nil // rows behind these in their runs were lost
		case err == nil:
			err = &SettleError{Table: e.table.Name(), Lost: lost}
		}
	}
	if err == nil {
		err = commitSettled(ctx, tx.tx, rows, batch)
	}
	if err != nil {
		done = &changes{ids: []uuid.UUID{}}
	}
	e.settled(done.rows)
	call.End(telemetry.Event{IDs: done.ids, Rows: settlements(done.rows), Err: err, ToldLater: err != nil})
	return err
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

// settledIn is how the handler's transaction settles the claim.
func (d *delivery) settledIn(ctx context.Context, o *Outcome) *settlement {
	return &settlement{claimRef: d.settlement.claimRef, row: d.claimedRow, outcome: o, lane: d.settlement.lane,
		message: o.stored(ctx, d.engine.handling.Redact), run: d.settlement.run, place: d.settlement.place}
}

// commitSettled commits a handler's transaction, which has settled all of the rows.
func commitSettled(ctx context.Context, tx pgx.Tx, rows []*delivery, batch []*settlement) error {
	for _, d := range rows {
		d.settling.Store(true)
	}
	if err := tx.Commit(ctx); err != nil {
		for i, d := range rows {
			d.settlement.unconfirmed = batch[i]
			d.settling.Store(false)
		}
		return fmt.Errorf("txwork: committing the handler's transaction: %w", err)
	}
	for i, d := range rows {
		d.byTx.Store(batch[i])
	}
	return nil
}

// begunSetting marks the transaction that [Claim.Tx] has begun with the id of the claim's row. The setting is local to
// the transaction, or to the savepoint inside a transaction of the application. If a statement of the handler ends
// either, such as ROLLBACK, the mark is gone, whatever the handler begins afterwards. So it is after RESET ALL, which
// also removes the limits of the transaction.
const begunSetting = "txwork.claim_tx"

var (
	errTxEnded = errors.New("txwork: the transaction of Claim.Tx was ended by the handler, with ROLLBACK or COMMIT: " +
		"the claim is not settled; to undo the writes, return an error")

	// errTxUnmarked does not say which of its causes it was, because the server does not tell.
	errTxUnmarked = errors.New("txwork: the handler's transaction has lost the mark of Claim.Tx: it was ended by the " +
		"handler, which began another one, or its settings were reset, as RESET ALL does: the claim is not settled; " +
		"to undo the writes, return an error")
)

// beginText begins a handler's transaction, marks and bounds it, in one round trip.
func (d *delivery) beginText() string {
	sets := append([]string{markSet(d.ID)}, conn.Limits(d.engine.handling.TxLimits).Settings()...)
	if d.folds() {
		sets = append(sets, d.engine.table.spec.foldPromise())
	}
	return conn.BeginReadWrite + "; SELECT " + strings.Join(sets, ", ")
}

func markSet(id uuid.UUID) string { return conn.SetLocal(begunSetting, id.String()) }

// A begunTx is the transaction of a row's handler. It runs the calls of its settle, and checks that it is still the one
// that was begun.
type begunTx struct {
	executor
	tx   pgx.Tx
	id   uuid.UUID
	conn *pgxpool.Conn // nil: a savepoint has none of its own
}

// end rolls back a transaction that was not committed. It closes the connection if the server has become read-only, so
// that the pool connects to the primary.
func (t begunTx) end(cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if postgres.IsReadOnly(cause) {
		t.tx.Conn().Close(ctx)
	}
	t.tx.Rollback(ctx) // after a commit this does nothing
	if t.conn != nil {
		t.conn.Release()
	}
}

func (t begunTx) run(ctx context.Context, calls ...conn.Call) error {
	if t.tx.Conn().PgConn().TxStatus() != 'T' {
		return errTxEnded // without a transaction the calls would commit one by one
	}
	return t.executor.run(ctx, append([]conn.Call{t.check()}, calls...)...)
}

func (t begunTx) check() conn.Call {
	return conn.Call{
		Statement: conn.Statement{Name: "begun",
			Text: "SELECT coalesce(pg_catalog.current_setting('" + begunSetting + "', true), '')"},
		Unpinned: true,
		Row: func(scan func(...any) error) error {
			var id string
			if err := scan(&id); err != nil {
				return err
			}
			if id != t.id.String() {
				return errTxUnmarked
			}
			return nil
		},
	}
}

// ownTx runs calls in a transaction that then only commits. Its settings need not be restored, and if the process
// freezes before the commit, the server soon ends the session.
type ownTx struct{ tx pgx.Tx }

func (t ownTx) run(ctx context.Context, calls ...conn.Call) error {
	return explain(conn.RunLast(ctx, t.tx, calls))
}
