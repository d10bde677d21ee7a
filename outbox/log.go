package outbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/outbox/internal/log"
	"github.com/txwork/txwork/workqueue"
)

// ParkedSpec describes the table of a log's parked messages in a schema: those that failed in a subscription, and those
// behind them in their key. Txwork's own migrations create it with the log. An empty schema is
// [workqueue.DefaultSchema].
func ParkedSpec(schema string) workqueue.Spec { return log.ParkedSpec(schema) }

// LogDDL renders the migration of a log in a schema: the statements that create its tables and functions, and those
// that drop them. The schema has to exist. Txwork's own migrations are this text.
func LogDDL(schema string) (up, down string, err error) { return log.DDL(schema) }

// openLog opens an outbox that is a log. A message is checked as if it were a row, and telemetry is told of it as of
// one: the log takes what the table takes.
func (o *Outbox) openLog(options Options, spec workqueue.Spec) (err error) {
	spec.Table = log.Table
	if o.messages, err = workqueue.Open(spec, options.Telemetry); err != nil {
		return err
	}
	if o.table, err = workqueue.Open(log.ParkedSpec(options.Schema), options.Telemetry); err != nil {
		return err
	}
	if o.delivered, err = workqueue.Open(log.MessagesSpec(options.Schema), options.Telemetry); err != nil {
		return err
	}
	o.log = log.NewWriter(options.Schema)
	return nil
}

// append writes messages that have been validated to the log. They have the order of the call. The writers of a key
// take turns, and take all keys of a call in one order, so that no two of them wait for each other.
func (o *Outbox) append(ctx context.Context, tx workqueue.Tx, b batch) ([]workqueue.Enqueued, error) {
	if err := b.checkLogged(); err != nil {
		return nil, err
	}
	var keys []string
	for i := range b.msgs {
		if key := b.msgs[i].Key; o.ordering == PerKey && key != "" {
			keys = append(keys, key)
		}
	}
	queue := o.messages.In(tx)
	if len(keys) > 0 && (len(b.msgs) > 1 || b.msgs[0].DedupKey != "" || !b.msgs[0].ScheduledAt.IsZero()) {
		if err := o.log.Lock(ctx, queue, keys); err != nil {
			return nil, err
		}
	}
	return o.messages.InsertBy(ctx, b.rows, func(ctx context.Context, first int, ids []uuid.UUID,
		headers []*string) ([]workqueue.Enqueued, error) {
		all := make([]log.Message, len(ids))
		for i := range all {
			m := &b.msgs[first+i]
			all[i] = log.Message{ID: ids[i], Topic: m.Topic, Key: m.Key, Headers: headers[i], Payload: m.Payload,
				DedupKey: m.DedupKey, ScheduledAt: m.ScheduledAt}
		}
		return o.log.Append(ctx, queue, o.ordering == PerKey, all)
	})
}

// checkLogged refuses the first message that asks for what a log does not have.
func (b batch) checkLogged() error {
	for i := range b.msgs {
		if err := b.msgs[i].checkLogged(); err != nil {
			return &workqueue.ItemError{Item: "message", Index: i, Count: len(b.msgs), Err: err}
		}
	}
	return nil
}
