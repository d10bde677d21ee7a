package outbox

import (
	"context"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Enqueue writes messages in the application's transaction: they are delivered if and only if it commits. The results
// are in the order of the messages. If the dedup key of a message is taken, nothing is written for it: the result is a
// Duplicate with the id of the message that holds the key.
//
// Check the error. All messages are validated before any is written. An [*workqueue.ItemError] names the one that was
// refused, and the reason. The transaction is unchanged then, so committing it would commit your data without the
// message. After any other error, roll the transaction back: PostgreSQL may have aborted it, and some of many messages
// may have been written.
//
// You may pass any number of messages. If they are many or large, they are sent in several statements.
func (o *Outbox) Enqueue(ctx context.Context, tx workqueue.Tx, msgs ...Message) ([]workqueue.Enqueued, error) {
	batch, err := o.prepare(ctx, msgs, func(int) role { return alone })
	if err != nil {
		return nil, err
	}
	return o.write(ctx, tx, batch)
}

// write inserts messages that have been validated.
func (o *Outbox) write(ctx context.Context, tx workqueue.Tx, b batch) ([]workqueue.Enqueued, error) {
	if len(b.rules) > 1 { // in the same order in every transaction, to avoid deadlocks
		if err := keyed.Lock(ctx, tx, o.table, b.rules...); err != nil {
			return nil, err
		}
	}
	enqueued := make([]workqueue.Enqueued, 0, len(b.rows))
	for chunk := range input.Chunks(b.rows, input.RowSize) {
		written, err := o.table.Insert(ctx, tx, chunk...)
		if err != nil {
			return nil, err
		}
		enqueued = append(enqueued, written...)
	}
	return enqueued, nil
}
