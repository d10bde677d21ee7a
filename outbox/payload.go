package outbox

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded returns the messages with their values encoded as payloads. It leaves the caller's messages unchanged. It
// also assigns ids, in the order of the call, because the codec may bind a payload to the id of its row.
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
		data, err := payload.Of(ctx, o.codec, codec.NewEnvelope(o.messages.Name(), m.ID, m.Headers), m.Value, m.Payload)
		if err != nil {
			return nil, &workqueue.ItemError{Item: "message", Index: i, Count: len(msgs), Err: err}
		}
		m.Payload, m.Value = data, nil
	}
	return msgs, nil
}

// Decode decodes Payload with the outbox's codec into the value that the pointer points to. The error is a
// [*codec.DecodeError]; return it from the handler, as [codec.Handler] does. A Delivery that a test has constructed has
// no outbox: its payload is decoded as JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
