package outbox

import (
	"context"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
)

// Enqueue writes a message in the application's transaction: it is delivered if and only if that commits. If the dedup
// key of the message is taken, nothing is written: the result is a Duplicate with the id of the message that holds the
// key.
//
// Check the error. A message that is refused is a [*workqueue.InvalidError]. The transaction is unchanged then, so
// committing it would commit your data without the message. After any other error, roll the transaction back:
// PostgreSQL may have aborted it.
func (o *Outbox) Enqueue(ctx context.Context, tx workqueue.Tx, m Message) (workqueue.Enqueued, error) {
	enqueued, err := o.EnqueueMany(ctx, tx, m)
	if err != nil {
		return workqueue.Enqueued{}, err
	}
	return enqueued[0], nil
}

// EnqueueMany is [Outbox.Enqueue] for any number of messages, in as few statements as possible. The results are in the
// order of the messages; without messages it does nothing. Every message is validated before the first is written; an
// [*workqueue.ItemError] says which one was refused and why. After any other error, some of them may have been written:
// roll the transaction back.
func (o *Outbox) EnqueueMany(ctx context.Context, tx workqueue.Tx, msgs ...Message) ([]workqueue.Enqueued, error) {
	batch, err := o.prepare(ctx, msgs, func(int) role { return alone })
	if err != nil {
		return nil, err
	}
	return o.write(ctx, tx, batch)
}

// write inserts messages that have been validated.
func (o *Outbox) write(ctx context.Context, tx workqueue.Tx, b batch) ([]workqueue.Enqueued, error) {
	if o.log != nil {
		return o.append(ctx, tx, b)
	}
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
