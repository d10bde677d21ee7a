package outbox

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// CancelScheduled removes messages of a [Log] that are not due yet, and returns the ids of those that it has removed.
// Those behind them in their keys are due as if they had never been written. What is due is in the log, and every
// subscription gets it. Dedup keys of cancelled messages stay taken. In SQL it is outbox_log_cancel. For [Rows], cancel
// rows of [Outbox.Table].
//
// Messages that were written before the outbox moved ([MoveToLog]) are rows, or parked for the successor: these are
// cancelled if they are not due and have not been attempted.
func (o *Outbox) CancelScheduled(ctx context.Context, tx workqueue.Tx, ids ...uuid.UUID) ([]uuid.UUID, error) {
	if o.log == nil {
		return nil, validate.Errorf("storage", "is Rows, whose messages are rows of a table: call Cancel of the table")
	}
	cancelled, err := o.idsOf(ctx, tx, "SELECT * FROM "+o.named("cancel")+"($1::uuid[])", ids)
	for _, table := range o.Tables() { // in the order in which they move
		if err != nil || len(cancelled) >= len(ids) {
			break
		}
		var rows []uuid.UUID
		name := pgx.Identifier{table.Spec().Schema, table.Spec().Table}.Sanitize()
		rows, err = o.idsOf(ctx, tx, "SELECT r.id FROM "+name+" AS r WHERE r.id = ANY ($1::uuid[]) "+
			"AND r.status = 0 AND r.attempts = 0 AND r.due_at > now()", ids)
		if err != nil || len(rows) == 0 {
			continue
		}
		rows, err = table.In(tx).Cancel(ctx, rows, "before it was due")
		cancelled = append(cancelled, rows...)
	}
	return cancelled, err
}

// idsOf returns the ids that a query selects.
func (o *Outbox) idsOf(ctx context.Context, tx workqueue.Tx, query string, ids []uuid.UUID) (all []uuid.UUID,
	err error) {
	err = o.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		all = append(all, id)
		return err
	}, query, ids)
	return all, err
}
