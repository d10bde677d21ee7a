package workqueue

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue/internal/conn"
)

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
	sets := append([]string{markSet(d.ID)}, conn.Limits(d.worker.options.TxLimits).Settings()...)
	if d.folds() {
		sets = append(sets, d.worker.table.spec.foldPromise())
	}
	return conn.BeginReadWrite + "; SELECT " + strings.Join(sets, ", ")
}

func markSet(id uuid.UUID) string { return conn.SetLocal(begunSetting, id.String()) }

// begunTx runs calls in a handler's transaction. It also checks that this is still the transaction that was begun.
type begunTx struct {
	executor
	tx pgx.Tx
	id uuid.UUID
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
