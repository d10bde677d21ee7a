package inbox

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/txwork/txwork/workqueue"
	"github.com/txwork/txwork/workqueue/codec"
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

// topicOrSource returns the topic that selects the handler. Rows that were inserted by SQL may have none; then it is
// the source.
func (d *Delivery) topicOrSource() string { return cmp.Or(d.Topic, d.Source) }

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
