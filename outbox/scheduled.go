package outbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/validate"
)

// CancelScheduled removes messages of a [Log] that are not due yet, and returns the ids of those that it has removed.
// Those behind them in their keys are due as if they had never been written. What is due is in the log, and every
// subscription gets it. Dedup keys of cancelled messages stay taken. In SQL it is outbox_log_cancel. For [Rows], cancel
// rows of [Outbox.Table].
func (o *Outbox) CancelScheduled(ctx context.Context, tx workqueue.Tx, ids ...uuid.UUID) ([]uuid.UUID, error) {
	if o.log == nil {
		return nil, validate.Errorf("storage", "is Rows, whose messages are rows of a table: call Cancel of the table")
	}
	var cancelled []uuid.UUID
	err := o.table.In(tx).Query(ctx, func(scan func(...any) error) error {
		var id uuid.UUID
		err := scan(&id)
		cancelled = append(cancelled, id)
		return err
	}, "SELECT * FROM "+o.named("cancel")+"($1::uuid[])", ids)
	return cancelled, err
}
