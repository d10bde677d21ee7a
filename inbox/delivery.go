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

	topic    *string
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

// fields receive the domain columns of a claimed row. The hash is not looked at.
func (d *Delivery) fields() []any {
	return []any{&d.Consumer, &d.Source, &d.MessageID, nil, &d.topic, &d.Payload}
}

// topicOrSource is the topic by which the handler is found. Only a row that was inserted by SQL has none.
func (d *Delivery) topicOrSource() string {
	if d.topic == nil {
		return d.Source
	}
	return *d.topic
}

// process passes a claimed message to its handler, in the transaction that settles it.
func (b *Inbox) process(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
	d := &c.Body
	d.ID, d.Topic, d.Headers = c.ID, d.topicOrSource(), c.Headers
	d.Attempt, d.MaxAttempts, d.ReceivedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
	d.codec, d.envelope = b.codec, b.envelope(d.Consumer, d.Source, d.MessageID, c.Headers)
	if d.Payload == nil {
		d.Payload = []byte{}
	}
	return c.Tx(ctx, func(tx pgx.Tx) error { return h(ctx, tx, d) })
}
