package outbox

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded are the messages with payloads in the place of values. The caller's stay as they are. Ids are made here,
// in the order of the call, because the codec may bind a payload to its row.
func (o *Outbox) encoded(ctx context.Context, msgs []Message) ([]Message, error) {
	if !slices.ContainsFunc(msgs, func(m Message) bool { return m.Value != nil }) {
		return msgs, nil
	}
	msgs = slices.Clone(msgs)
	for i := range msgs {
		m := &msgs[i]
		if m.ID == uuid.Nil {
			m.ID = codec.NewID()
		}
		data, err := payload.Of(ctx, o.codec, o.envelope(m.ID, m.Headers), m.Value, m.Payload)
		if err != nil {
			return nil, &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
		m.Payload, m.Value = data, nil
	}
	return msgs, nil
}

func (o *Outbox) envelope(id uuid.UUID, headers map[string]string) codec.Envelope {
	return codec.NewEnvelope(o.table.Name(), id, headers)
}

// Decode reads Payload with the outbox's codec into what the pointer points to. The error is a
// [*codec.DecodeError]: return it from the handler, as [codec.Handler] does by itself. A Delivery that a
// handler's test has made has no outbox, and its payload is JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
