package inbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
)

// A Delivery is a message in the hands of its handler. Its fields are the handler's to keep or change. A
// handler's test may make one by itself.
type Delivery struct {
	ID          uuid.UUID // of the row
	Consumer    string
	Source      string
	MessageID   string
	Topic       string
	Payload     []byte // never nil
	Headers     map[string]string
	Attempt     int // 1 is the first
	MaxAttempts int
	ReceivedAt  time.Time // when the message was stored
	DueAt       time.Time // when this attempt became due

	codec    codec.Codec
	envelope codec.Envelope
}

// A Handler processes one message in a transaction, which is READ COMMITTED. What it writes there commits if
// and only if the message is settled with it, so its effect happens exactly once.
//
// Its result settles the message: nil is processed; an outcome that says so itself, such as
// [workqueue.Permanent], [workqueue.Snooze], [workqueue.RetryAfter] or [workqueue.Cancelled], is settled
// and commits together with the writes. Any other error, or a panic, rolls the writes back and is a failed
// attempt. A handler cannot commit; if the lease was lost meanwhile its writes are rolled back.
//
// The context is cancelled when the lease is lost, when the message is cancelled, when the handler's time
// is up, and late in a shutdown; [context.Cause] tells which. It carries the delivery's span.
type Handler = func(ctx context.Context, tx pgx.Tx, m *Delivery) error

func (b *Inbox) newDelivery(c *workqueue.Claim[columns]) *Delivery {
	m := &Delivery{
		ID:          c.ID,
		Consumer:    c.Body.consumer,
		Source:      c.Body.source,
		MessageID:   c.Body.messageID,
		Topic:       c.Body.source,
		Payload:     c.Body.payload,
		Headers:     c.Headers,
		Attempt:     c.Attempt,
		MaxAttempts: c.MaxAttempts,
		ReceivedAt:  c.CreatedAt,
		DueAt:       c.DueAt,
		codec:       b.codec,
		envelope:    b.envelope(c.Body.consumer, c.Body.source, c.Body.messageID, c.Headers),
	}
	if c.Body.topic != nil { // it is for a row that was inserted by SQL
		m.Topic = *c.Body.topic
	}
	if m.Payload == nil {
		m.Payload = []byte{}
	}
	return m
}
