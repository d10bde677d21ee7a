package inbox

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
	"github.com/txwork/txwork/workqueue/topics"
)

// A Delivery is a message that is passed to its handler. The handler may keep and change its fields. The test of a
// handler can construct one.
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

// A Handler processes one message in a READ COMMITTED transaction, which also settles the message. What the handler
// writes there commits if and only if the settle does, so its effect happens exactly once.
//
// The result of the handler settles the message. Nil means processed. An explicit outcome, such as
// [workqueue.Permanent], [workqueue.Snooze], [workqueue.RetryAfter] or [workqueue.Cancelled], commits together with the
// writes. Any other error, or a panic, rolls the writes back and is a failed attempt. A handler cannot commit. If the
// lease was lost, its writes are rolled back.
//
// The context is cancelled when the lease is lost, when the message is cancelled, when the handler's timeout expires,
// and when the ShutdownTimeout expires after Run was told to stop. [context.Cause] tells which. The context carries the
// delivery's span.
type Handler = func(ctx context.Context, tx pgx.Tx, m *Delivery) error

// A BatchHandler processes several messages in one READ COMMITTED transaction, which also settles them. Each result
// settles the message with the same index. No results, and no error, mean that all of them are processed. An explicit
// outcome, such as [workqueue.Permanent], commits together with the writes.
//
// Any other error of a message rolls all writes back and is a failed attempt of that message. The handler is called
// again with the others. An error is about the call and not about one of its messages, as are a panic and a timeout:
// all writes are rolled back, and the batch is halved, until each message was in a call that succeeded, or has failed
// alone, which is a failed attempt. So a message that cannot be processed costs others no attempt. See
// [workqueue.BatchHandler] also for what happens while every call fails, and for the context.
//
// The handler may keep the messages and change their fields, but not the bytes of payloads or the headers.
type BatchHandler = func(ctx context.Context, tx pgx.Tx, batch []*Delivery) ([]error, error)

// topicOrSource returns the topic that selects the handler. Rows that were inserted by SQL may have none; then it is
// the source.
func (d *Delivery) topicOrSource() string { return cmp.Or(d.Topic, d.Source) }

// process passes a claimed message to its handler, in the transaction that settles it.
func (b *Inbox) process(ctx context.Context, c *workqueue.Claim[Delivery], h Handler) error {
	d := b.complete(c)
	return c.Tx(ctx, func(tx pgx.Tx) error { return h(ctx, tx, d) })
}

// complete sets the fields of a delivery that the claim does not.
func (b *Inbox) complete(c *workqueue.Claim[Delivery]) *Delivery {
	d := &c.Body
	d.ID, d.Topic, d.Headers = c.ID, d.topicOrSource(), c.Headers
	d.Attempt, d.MaxAttempts, d.ReceivedAt, d.DueAt = c.Attempt, c.MaxAttempts, c.CreatedAt, c.DueAt
	d.codec, d.envelope = b.codec, b.envelope(d.Consumer, d.Source, d.MessageID, c.Headers)
	if d.Payload == nil {
		d.Payload = []byte{}
	}
	return d
}

// processBatch passes claimed messages to their handler, in the transaction that settles them.
func (b *Inbox) processBatch(h BatchHandler) workqueue.BatchHandler[Delivery] {
	if h == nil {
		return nil
	}
	deliver := func(ctx context.Context, c *workqueue.Claim[Delivery],
		to func(context.Context, *Delivery) error) error {
		return to(ctx, b.complete(c))
	}
	return func(ctx context.Context, claims []*workqueue.Claim[Delivery]) ([]error, error) {
		return workqueue.BatchTx(ctx, claims, func(tx pgx.Tx) ([]error, error) {
			return topics.Together(deliver, func(ctx context.Context, batch []*Delivery) ([]error, error) {
				return h(ctx, tx, batch)
			})(ctx, claims)
		})
	}
}
