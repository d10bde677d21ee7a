package jobs

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/workqueue"
)

// Cancel ends jobs, with the reason. Those that are ready or waiting have failed, with CancelledAt set, when
// tx commits. Of those that are in progress the handler's context is cancelled, wherever it runs: at once, or at
// the next renewal, within a third of the lease, where the worker gets no notifications. Unless the handler is
// done all the same, the job ends when it returns. Jobs that have ended, or were cancelled before, are left alone.
// It returns the ids that it changed; at most [workqueue.MaxBatch] of them.
func (c *Client) Cancel(ctx context.Context, tx workqueue.Tx, reason string, ids ...uuid.UUID) ([]uuid.UUID, error) {
	return c.table.In(tx).Cancel(ctx, ids, reason)
}

// Redrive gives failed jobs all their attempts again, from now: the replay of a dead letter. The steps and the
// output that are on record stay, and so does the history. Who asked, and when, is kept in the headers. It
// returns the ids that it changed; at most [workqueue.MaxBatch] of them.
//
// A job that gave up its unique key when it failed does not take it again.
func (c *Client) Redrive(ctx context.Context, tx workqueue.Tx, actor string, ids ...uuid.UUID) ([]uuid.UUID, error) {
	return c.table.In(tx).Redrive(ctx, ids, actor)
}
