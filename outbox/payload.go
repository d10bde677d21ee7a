package outbox

import (
	"context"

	"github.com/google/uuid"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue/codec"
)

// encode makes the value of a message its payload. It also assigns an id, because the codec may bind a payload to the
// id of its row.
func (o *Outbox) encode(ctx context.Context, m *Message) (err error) {
	if m.ID == uuid.Nil {
		m.ID = codec.NewID()
	}
	m.Payload, err = payload.Of(ctx, o.codec, codec.NewEnvelope(o.messages.Name(), m.ID, m.Headers), m.Value, m.Payload)
	m.Value = nil
	return err
}

// Decode decodes Payload with the outbox's codec into the value that the pointer points to. The error is a
// [*codec.DecodeError]; return it from the handler, as [codec.Handler] does. A Delivery that a test has constructed has
// no outbox: its payload is decoded as JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
