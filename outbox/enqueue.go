package outbox

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/input"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/keyed"
	"github.com/txwork/txwork/workqueue/validate"
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
	batch, err := o.prepare(ctx, msgs, nil)
	if err != nil {
		return nil, err
	}
	if o.rows != nil && len(msgs) > 0 {
		if moved, err := o.hasMoved(ctx, tx, batch); err != nil {
			return nil, err
		} else if !moved {
			return o.rows.write(ctx, tx, batch)
		}
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

// A batch holds validated messages, also as rows, and the rules of those that are ordered by key.
type batch struct {
	msgs  []Message
	rows  []workqueue.NewRow
	rules []keyed.Rule
}

// prepare turns messages, which may be those of a join, into rows, and refuses the first that the table could not hold.
// The core would refuse it, too, but it sees one chunk of a call at a time, when earlier chunks may have been written.
func (o *Outbox) prepare(ctx context.Context, msgs []Message, of *Join) (batch, error) {
	msgs, err := o.encoded(ctx, msgs)
	if err != nil {
		return batch{}, err
	}
	b := batch{msgs: msgs, rows: make([]workqueue.NewRow, len(msgs))}
	seen := map[uuid.UUID]int{}
	for i := range msgs {
		m := &msgs[i]
		g := o.byKey(m)
		if g != nil {
			b.rules = append(b.rules, g)
		}
		b.rows[i] = row(m, of.role(i), g)
		err := cmp.Or(validate.Size("headers", input.HeaderSize(m.Headers), MaxHeaders), o.messages.Check(&b.rows[i]),
			checkID(seen, i, m.ID))
		if err != nil {
			return batch{}, &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
	}
	return b, nil
}

// checkID refuses an id that an earlier message of the same call has.
func checkID(seen map[uuid.UUID]int, i int, id uuid.UUID) error {
	if id == uuid.Nil {
		return nil
	}
	if first, taken := seen[id]; taken {
		return validate.Errorf("id", "%s is that of message %d, too", id, first+1)
	}
	seen[id] = i
	return nil
}
