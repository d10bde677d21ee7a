package outbox

import (
	"context"
	"slices"

	"github.com/google/uuid"

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
	b, err := o.prepare(ctx, msgs)
	if err != nil {
		return nil, err
	}
	if o.rows != nil && len(msgs) > 0 {
		if moved, err := o.hasMoved(ctx, tx, b); err != nil {
			return nil, err
		} else if !moved {
			return o.rows.write(ctx, tx, b)
		}
	}
	return o.write(ctx, tx, b)
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
	return o.table.Insert(ctx, tx, b.rows...)
}

// A batch holds validated messages, also as rows, and the rules of those that are ordered by key.
type batch struct {
	msgs  []Message
	rows  []workqueue.NewRow
	rules []keyed.Rule
	ids   map[uuid.UUID]int // of the messages that have one, the index of the first
}

// prepare encodes and validates a copy of messages, and turns them into rows.
func (o *Outbox) prepare(ctx context.Context, msgs []Message) (batch, error) {
	b := batch{msgs: slices.Clone(msgs), rows: make([]workqueue.NewRow, len(msgs))}
	for i := range b.msgs {
		if err := o.prepareOne(ctx, &b, i); err != nil {
			return batch{}, &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
	}
	return b, nil
}

func (o *Outbox) prepareOne(ctx context.Context, b *batch, i int) error {
	m, row := &b.msgs[i], &b.rows[i]
	if m.Value != nil {
		if err := o.encode(ctx, m); err != nil {
			return err
		}
	}
	if m.ID != uuid.Nil {
		if err := b.addID(i, m.ID); err != nil {
			return err
		}
	}
	r := record{Message: m}
	if o.ordering == PerKey && m.Key != "" {
		r.byKey = keyed.Ordered{Key: m.Key, OnFailure: o.onFailure}
		b.rules = append(b.rules, r.byKey)
	}
	if m.part == step {
		r.joined = true
	}
	*row = workqueue.NewRow{
		ID: m.ID, DueAt: m.ScheduledAt, MaxAttempts: m.MaxAttempts, Headers: m.Headers, Retry: m.Retry,
		Waiting: m.part == continuation, Values: workqueue.ValuesOf(&r, (*record).columns),
	}
	return o.messages.Check(row)
}

// addID refuses an id that an earlier message of the same call has.
func (b *batch) addID(i int, id uuid.UUID) error {
	if first, taken := b.ids[id]; taken {
		return validate.Errorf("id", "%s is that of message %d, too", id, first+1)
	}
	if b.ids == nil {
		b.ids = map[uuid.UUID]int{}
	}
	b.ids[id] = i
	return nil
}
