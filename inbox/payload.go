package inbox

import (
	"context"
	"slices"

	"github.com/txwork/txwork/internal/payload"
	"github.com/txwork/txwork/workqueue/codec"
)

// encoded returns the messages with their values encoded as payloads. It leaves the caller's messages unchanged.
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

// encode encodes a message's value as its payload. The hash is taken of the plaintext, because a codec that encrypts
// returns different bytes each time.
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
	m.BodyHash = hashOf(m.Source, m.Topic, plain)
	return err
}

// envelope identifies a payload by the message's key instead of the row's id, because the key identifies the message
// whatever row stores it.
func (b *Inbox) envelope(consumer, source, messageID string, headers map[string]string) codec.Envelope {
	return codec.NewEnvelope(b.table.Name(), codec.KeyID(consumer, source, messageID), headers)
}

// Decode decodes Payload with the inbox's codec into the value that the pointer points to. The error is a
// [*codec.DecodeError]; return it from the handler, as [codec.HandlerIn] does. A Delivery that a test has constructed
// has no inbox: its payload is decoded as JSON.
func (d *Delivery) Decode(ctx context.Context, into any) error {
	return payload.Decode(ctx, d.codec, d.envelope, d.Payload, into)
}
