package inbox

import (
	"context"
	"slices"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded are the messages with payloads in the place of values. The caller's stay as they are.
func (b *Inbox) encoded(ctx context.Context, msgs []Message) ([]Message, error) {
	if !slices.ContainsFunc(msgs, func(m Message) bool { return m.Value != nil }) {
		return msgs, nil
	}
	msgs = slices.Clone(msgs)
	for i := range msgs {
		if msgs[i].Value == nil {
			continue
		}
		if err := b.encode(ctx, &msgs[i]); err != nil {
			return nil, refusedItem(i, len(msgs), err)
		}
	}
	return msgs, nil
}

// encode makes a message's payload of its value. The hash is that of what a codec that encrypts has encrypted:
// the same message comes out of it differently each time.
func (b *Inbox) encode(ctx context.Context, m *Message) error {
	e := b.envelope(m.Consumer, m.Source, m.MessageID, m.Headers)
	data, err := payload.Of(ctx, b.codec, e, m.Value, m.Payload)
	if err != nil {
		return err
	}
	m.Payload, m.Value = data, nil
	if len(m.BodyHash) > 0 {
		return nil
	}
	plain, err := payload.Plain(b.codec, e, data)
	m.BodyHash = hashOf(plain)
	return err
}

// envelope has the message's key in the place of the row's id: whatever row it is stored in, it is the same message.
func (b *Inbox) envelope(consumer, source, messageID string, headers map[string]string) codec.Envelope {
	return codec.NewEnvelope(b.table.Name(), codec.KeyID(consumer, source, messageID), headers)
}

// Decode reads Payload with the inbox's codec into what the pointer points to. The error is a
// [*codec.DecodeError]: return it from the handler, as [codec.HandlerIn] does by itself. A Delivery that a
// handler's test has made has no inbox, and its payload is JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
