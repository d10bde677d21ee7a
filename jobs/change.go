package jobs

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Cancel ends jobs, with the reason. Jobs that are ready or waiting have failed, with CancelledAt set, when tx commits.
// For jobs in progress, the handler's context is cancelled, wherever it runs: at once, or, if the worker gets no
// notifications, at the next renewal, which is within a third of the lease. The job ends as cancelled when the handler
// returns, unless the handler succeeds all the same. Jobs that have ended, or were cancelled before, are left alone.
// Cancel returns the ids that it changed; at most [workqueue.MaxBatch] of them.
func (c *Client) Cancel(ctx context.Context, tx workqueue.Tx, reason string, ids ...uuid.UUID) ([]uuid.UUID, error) {
	return c.table.In(tx).Cancel(ctx, ids, reason)
}

// Redrive makes dead letters ready again, due now and with all their attempts. They keep their recorded steps, output
// and history. The actor and the time are stored in the headers. It returns the ids that it changed; at most
// [workqueue.MaxBatch] of them.
//
// A job that gave up its unique key when it failed, was cancelled or started takes the key again. While another
// job holds the key it is left alone, because the other one does its work: redrive it when that has ended. Of
// several dead letters of one key, that which failed first is redriven. See [workqueue.Queue.Redrive] for
// transactions that write the key at the same time.
func (c *Client) Redrive(ctx context.Context, tx workqueue.Tx, actor string, ids ...uuid.UUID) ([]uuid.UUID, error) {
	return c.table.In(tx).Redrive(ctx, ids, actor)
}
