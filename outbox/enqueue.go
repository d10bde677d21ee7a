package outbox

import (
	"context"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/gate"
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
	msgs, err := o.encoded(ctx, msgs)
	if err == nil {
		err = o.check(msgs)
	}
	if err != nil {
		return nil, err
	}
	return o.write(ctx, tx, alone, msgs)
}

// write writes messages that have been checked.
func (o *Outbox) write(ctx context.Context, tx workqueue.Tx, r role, msgs []Message) ([]workqueue.Enqueued, error) {
	if err := o.lockKeys(ctx, tx, msgs); err != nil {
		return nil, err
	}
	enqueued := make([]workqueue.Enqueued, 0, len(msgs))
	for chunk := range input.Chunks(msgs, Message.size) {
		written, err := o.table.Insert(ctx, tx, o.rows(r, chunk)...)
		if err != nil {
			return nil, err
		}
		enqueued = append(enqueued, written...)
	}
	return enqueued, nil
}

// lockKeys takes the keys of ordered messages in one order for everybody.
func (o *Outbox) lockKeys(ctx context.Context, tx workqueue.Tx, msgs []Message) error {
	if o.ordering != PerKey || len(msgs) < 2 {
		return nil
	}
	gates := make([]*gate.Gate, len(msgs))
	for i, m := range msgs {
		gates[i] = o.gate(m)
	}
	return gate.Lock(ctx, tx, o.table, gates...)
}

func (o *Outbox) rows(r role, msgs []Message) []workqueue.NewRow {
	rows := make([]workqueue.NewRow, len(msgs))
	for i, m := range msgs {
		rows[i] = o.row(m, r)
	}
	return rows
}

func (o *Outbox) row(m Message, r role) workqueue.NewRow {
	return workqueue.NewRow{
		ID:          m.ID,
		DueAt:       m.ScheduledAt,
		MaxAttempts: m.MaxAttempts,
		Headers:     m.Headers,
		Retry:       m.Retry,
		Waiting:     r == continuation,
		Values:      o.values(m, r),
	}
}
